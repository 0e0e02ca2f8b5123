"""Conditions a user writes over names, such as ``reducers + mappers <= 320``: parsed once, never given to ``eval``.

Only numbers, texts, booleans, names, arithmetic, comparison, ``and``/``or``/``not``, ``in``, ``… if … else …`` and the
functions abs, min, max, sum, len, ceil, floor, round, sqrt, exp, log, log2 exist. Attributes, subscripts, lambdas and
calls of anything else are refused when the expression is read, so that nothing in a space file can run code.
"""

from __future__ import annotations

import ast
import math
import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from streamtune.errors import StreamTuneError

Evaluate = Callable[[Mapping[str, Any]], Any]

_LONGEST = 4_000
_LARGEST_EXPONENT = 64
_DEEPEST = 200


def _power(base: Any, exponent: Any) -> Any:
    if abs(exponent) > _LARGEST_EXPONENT:
        raise ValueError(f"the exponent {exponent} is beyond ±{_LARGEST_EXPONENT}")
    return base**exponent


def _times(a: Any, b: Any) -> Any:
    if not all(isinstance(side, (int, float)) for side in (a, b)):
        raise TypeError("only numbers can be multiplied")  # a text times a number could fill the memory
    return a * b


_BINARY: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: _times,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: lambda a, b: operator.mod(float(a), b) if isinstance(a, str) else operator.mod(a, b),
    ast.Pow: _power,
}
_UNARY: dict[type[ast.unaryop], Callable[[Any], Any]] = {
    ast.UAdd: operator.pos,
    ast.USub: operator.neg,
    ast.Not: operator.not_,
}
_COMPARE: dict[type[ast.cmpop], Callable[[Any, Any], Any]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.In: lambda a, b: a in b,
    ast.NotIn: lambda a, b: a not in b,
}
_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "abs": abs,
    "min": min,
    "max": max,
    "sum": lambda *values: sum(values[0] if len(values) == 1 and isinstance(values[0], tuple) else values),
    "len": len,
    "ceil": math.ceil,
    "floor": math.floor,
    "round": lambda value: round(value),  # to whole numbers alone: to −10⁹ digits would take for ever
    "sqrt": math.sqrt,
    "exp": math.exp,
    "log": math.log,
    "log2": math.log2,
}
_OTHER_WORDS = {"&&": "and", "||": "or"}
_CONSTANT_NAMES = {"true": True, "false": False}  # as YAML and most config files spell them


class ExpressionError(StreamTuneError):
    """An expression that cannot be read, or that has no value at a point."""


@dataclass(frozen=True)
class Expression:
    """A parsed expression.

    >>> limit = Expression.parse("reducers + 2 * mappers <= 100")
    >>> sorted(limit.names), limit.holds({"reducers": 10, "mappers": 40})
    (['mappers', 'reducers'], True)
    """

    text: str
    evaluate: Evaluate
    names: frozenset[str]

    @classmethod
    def parse(cls, text: str) -> Expression:
        """:raises ExpressionError: when it is not an expression, or uses what is not allowed."""
        if len(text) > _LONGEST:
            raise ExpressionError(f"an expression of {len(text)} characters is too long: at most {_LONGEST}")
        try:
            tree = ast.parse(text.strip(), mode="eval").body
        except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
            use = next((f": use {word}" for sign, word in _OTHER_WORDS.items() if sign in text), "")
            raise ExpressionError(f"{text!r} is not an expression such as 'a + b <= 10'{use}") from error
        names: set[str] = set()
        _check(tree, text, names, 0)
        return cls(text, _compiled(tree), frozenset(names))

    def value(self, names: Mapping[str, Any]) -> Any:
        """:raises ExpressionError: when it has no value there (a division by zero, a text plus a number)."""
        try:
            return self.evaluate(names)
        except KeyError as error:
            known = ", ".join(names) or "none"
            raise ExpressionError(
                f"{self.text!r} uses {error.args[0]!r}, which is unknown: there are {known}"
            ) from None
        except (ArithmeticError, TypeError, ValueError) as error:
            raise ExpressionError(f"{self.text!r} has no value here: {error}") from error

    def holds(self, names: Mapping[str, Any]) -> bool:
        """Whether it is true; where it has no value it is not."""
        try:
            return bool(self.value(names))
        except ExpressionError:
            return False


def _check(node: ast.expr, text: str, names: set[str], depth: int) -> None:
    if depth > _DEEPEST:
        raise ExpressionError(f"{text[:60]!r}… is nested too deeply: at most {_DEEPEST} levels")
    match node:
        case ast.Constant(value=value) if isinstance(value, (bool, int, float, str)):
            pass
        case ast.Name(id=name):
            if name not in _CONSTANT_NAMES:
                names.add(name)
        case ast.BinOp(op=op) if type(op) in _BINARY:
            pass
        case ast.UnaryOp(op=op) if type(op) in _UNARY:
            pass
        case ast.Compare(ops=ops) if all(type(op) in _COMPARE for op in ops):
            pass
        case ast.Call(func=ast.Name(id=function), keywords=[]) if function in _FUNCTIONS:
            for argument in node.args:
                _check(argument, text, names, depth + 1)
            return
        case ast.BoolOp() | ast.IfExp() | ast.Tuple() | ast.List():
            pass
        case _:
            what = ast.unparse(node)
            allowed = f"numbers, texts, knobs, arithmetic, comparisons, and/or/not, in, and {', '.join(_FUNCTIONS)}"
            raise ExpressionError(f"{text!r}: {what!r} is not allowed: use {allowed}")
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.expr):
            _check(child, text, names, depth + 1)


def _compiled(node: ast.expr) -> Evaluate:
    """The expression as nested functions: several times faster than walking the tree for every point."""
    match node:
        case ast.Constant(value=value):
            return lambda _names: value
        case ast.Name(id=name):
            if name in _CONSTANT_NAMES:
                constant = _CONSTANT_NAMES[name]
                return lambda _names: constant
            return lambda names: names[name]
        case ast.BinOp(left=left, op=op, right=right):
            a, binary, b = _compiled(left), _BINARY[type(op)], _compiled(right)
            return lambda names: binary(a(names), b(names))
        case ast.UnaryOp(op=sign, operand=operand):
            unary, inner = _UNARY[type(sign)], _compiled(operand)
            return lambda names: unary(inner(names))
        case ast.BoolOp(op=ast.And(), values=values):
            parts = [_compiled(value) for value in values]
            return lambda names: all(part(names) for part in parts)
        case ast.BoolOp(values=values):
            parts = [_compiled(value) for value in values]
            return lambda names: any(part(names) for part in parts)
        case ast.IfExp(test=test, body=body, orelse=orelse):
            condition, then, other = _compiled(test), _compiled(body), _compiled(orelse)
            return lambda names: then(names) if condition(names) else other(names)
        case ast.Tuple(elts=items) | ast.List(elts=items):
            parts = [_compiled(item) for item in items]
            return lambda names: tuple(part(names) for part in parts)
        case ast.Call(func=ast.Name(id=called), args=arguments):
            function, parts = _FUNCTIONS[called], [_compiled(argument) for argument in arguments]
            return lambda names: function(*(part(names) for part in parts))
        case ast.Compare(left=first, ops=ops, comparators=others):
            return _chain(_compiled(first), [_COMPARE[type(op)] for op in ops], [_compiled(one) for one in others])
        case _:  # pragma: no cover  nothing else passes _check
            raise TypeError(f"{ast.dump(node)} cannot be evaluated")


def _chain(first: Evaluate, signs: list[Callable[[Any, Any], Any]], others: list[Evaluate]) -> Evaluate:
    def compare(names: Mapping[str, Any]) -> bool:
        left = first(names)
        for sign, other in zip(signs, others, strict=True):
            right = other(names)
            if not sign(left, right):
                return False
            left = right
        return True

    return compare
