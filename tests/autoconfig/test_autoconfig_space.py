"""Laws of the space: whatever vector comes in, an allowed configuration comes out."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from autoconfig.problems import hints, mixed
from streamtune.autoconfig.problem import filled_in, load_problem, parse_problem
from streamtune.autoconfig.space import Space, SpaceError

A = {"type": "int", "low": 1, "high": 3}
C = {"type": "category", "choices": ["zstd", "lz4"]}


@given(arrays(float, mixed().space.dimensions, elements=st.floats(allow_nan=True, allow_infinity=True)))
def test_any_vector_decodes_to_an_allowed_configuration(vector: Any) -> None:
    space = mixed().space
    space.check(space.decode(vector))


def test_ten_thousand_random_configurations_keep_all_constraints() -> None:
    for space, count in ((mixed().space, 10_000), (hints().space, 1_000)):
        generator = np.random.default_rng(5)
        for _ in range(count):
            space.check(space.sample(generator))


@given(arrays(float, mixed().space.dimensions, elements=st.floats(0, 1)))
def test_encoding_is_undone_by_decoding(vector: Any) -> None:
    space = mixed().space
    knobs = space.decode(vector)
    again = space.decode(space.encode(knobs))
    assert again.keys() == knobs.keys()
    assert all(again[name] == pytest.approx(knobs[name]) for name in knobs)


def test_a_conditional_knob_exists_only_where_its_condition_holds() -> None:
    space = mixed().space
    full = {**space.defaults, "codec": "lz4", "level": 7}
    assert "level" not in space.active(full)
    assert space.active({**full, "codec": "zstd"})["level"] == 7
    assert space.filled({"codec": "lz4"})["level"] == 5  # a placeholder still gets the knob's start


def test_a_point_outside_is_pulled_back_to_the_border() -> None:
    space = Space(
        knobs={name: {"type": "int", "low": 1, "high": 60} for name in ("a", "b", "c")}, constraints=["a + b + c <= 90"]
    )
    # From (1, 1, 1), the first corner that is allowed, towards (60, 60, 60): 30 each is the last that is allowed.
    assert space.decode(np.ones(3)) == {"a": 30, "b": 30, "c": 30}


def test_every_value_of_an_int_has_an_equal_share() -> None:
    knob = Space(knobs={"a": {"type": "int", "low": 1, "high": 3}}).knobs["a"]
    assert [knob.from_unit([place]) for place in (0.0, 0.33, 0.34, 0.66, 0.67, 1.0)] == [1, 1, 2, 2, 3, 3]
    assert [knob.from_unit(knob.to_unit(value)) for value in (1, 2, 3)] == [1, 2, 3]
    wide = Space(knobs={"a": {"type": "int", "low": -7, "high": 10**15}}).knobs["a"]
    assert [wide.from_unit([place]) for place in (0.0, 1.0)] == [-7, 10**15]


@pytest.mark.parametrize("default", [None, 15])
def test_narrow_constraints_leave_a_choice(default: int | None) -> None:
    """``a + b == 30``: 29 allowed configurations of 3,600, and no way to the anchor that keeps the sum."""
    knob = {"type": "int", "low": 1, "high": 60, "default": default}
    space = Space(knobs={"a": knob, "b": knob}, constraints=["a + b == 30"])
    generator = np.random.default_rng(0)
    for found in (
        [space.sample(generator)["a"] for _ in range(300)],
        [space.decode(generator.random(2))["a"] for _ in range(300)],
    ):
        assert len(set(found)) >= 25
        assert max(found.count(one) for one in set(found)) <= 60


def test_names_with_punctuation_are_spelt_with_underscores_in_expressions() -> None:
    space = Space(knobs={"batch-size": {"type": "int", "low": 1, "high": 9}}, constraints=["batch_size <= 4"])
    assert space.decode(np.ones(1)) == {"batch-size": 4}


@pytest.mark.parametrize(
    ("knobs", "constraints", "message"),
    [
        ({"a": {"type": "int", "low": 5, "high": 1}}, [], "low 5 is above high 1"),
        ({"a": {"type": "int", "low": 1}}, [], "an int needs low and high"),
        ({"a": {"type": "int", "low": 1.5, "high": 3}}, [], "must be whole numbers, but got 1.5 and 3"),
        ({"a": {"type": "float", "low": 0, "high": 1, "log": True}}, [], "must be above 0, but low is 0"),
        ({"a": {"type": "float", "low": float("nan"), "high": 1}}, [], "finite"),
        ({"a": {"type": "float", "low": 0, "high": float("inf")}}, [], "finite"),
        ({"a": {"type": "category"}}, [], "needs choices"),
        ({"a": {"type": "category", "choices": ["x", "x"]}}, [], "must differ"),
        ({"a": {"type": "category", "choices": ["x"], "low": 1}}, [], "not low, high or log"),
        ({"a": {"type": "int", "low": 1, "high": 3, "default": 7}}, [], "default 7 is not a whole number in .1, 3."),
        ({"a": {"type": "int", "low": 1, "high": 3, "step": 1}}, [], "no such setting; there are type, low, high"),
        ({"a": {"type": "word"}}, [], "'int', 'float' or 'category'"),
        ({"1a": {"type": "int", "low": 1, "high": 3}}, [], "begins with a letter"),
        ({"a": {"type": "int", "low": 1, "high": 3}}, ["b > 1"], "uses b: the knobs are a"),
        ({"a": {"type": "int", "low": 1, "high": 3}}, ["a >"], "not an expression"),
        ({"a": {"type": "int", "low": 1, "high": 3}}, ["a > 5"], "no allowed configuration"),
        ({"a": {"type": "int", "low": 1, "high": 3, "when": "b > 1"}}, [], "only knobs above it"),
        ({}, [], "no knobs"),
        ({"x": 3}, [], "knobs.x: must be a mapping with type, low, high…, but got 3"),
        ({1: {"type": "int", "low": 1, "high": 3}}, [], "a name must be a text, but got 1: put it in quotes"),
        ({"a": A}, {"a": "b"}, "constraints: must be a list of expressions, but got"),
        ({"a": A}, [3], "constraint 1 must be an expression such as 'a . b <= 10', but got 3"),
        ({"a": A}, ["a <= 1 && a > 0"], "is not an expression such as 'a . b <= 10': use and"),
        ({"a": A, "c": C}, ["c == zstd"], "uses zstd: quote it: c == 'zstd'"),
        ({"c": C, "a": {**A, "when": "c == zstd"}}, [], "uses zstd: quote it: c == 'zstd'"),
        ({"batch-size": A}, ["batch-size <= 2"], "in expressions 'batch-size' is spelt batch_size"),
        ({"lambda": A}, ["lambda <= 2"], "'lambda' is a reserved word of expressions: give the knob another name"),
        (
            {"a": {"type": "category", "choices": [None, "x"]}},
            [],
            "a choice must be a text, a number, true or false: put",
        ),
        ({"a": {**A, "default": [1]}}, [], "the default must be a text, a number, true or false: put it in quotes"),
    ],
)
def test_a_bad_space_is_refused_in_one_sentence(knobs: dict[str, Any], constraints: list[str], message: str) -> None:
    with pytest.raises(SpaceError, match=message) as caught:
        parse_problem({"knobs": knobs, "constraints": constraints}, "space.yaml")
    assert str(caught.value).startswith("space.yaml: ")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("knobs: [", "is not valid YAML: expected the node content, but found .* in line 1"),
        ("- 1", "must be a mapping"),
        ("", "the file is empty: give objective and knobs"),
        ("{knobs: {a: {type: int, low: 1, high: 2}}, objective: [a]}", "must be a mapping with command, direction"),
        (
            "{knobs: {a: {type: int, low: 1, high: 2}}, objective: {reps: 3}}",
            "objective.reps: no such setting; there are command, direction, timeout, repeats",
        ),
        ("knob: {}", "unknown key knob"),
        ("knobs: [a]", "must be a mapping name"),
        (
            "{knobs: {a: {type: int, low: 1, high: 2}}, objective: {command: [x], repeats: 0}}",
            "objective.repeats|repeats",
        ),
        ("{knobs: {a: {type: int, low: 1, high: 2}}, objective: {direction: up}}", "'maximize' or 'minimize'"),
        ("{knobs: {a: {type: int, low: 1, high: 2}}, objective: {timeout: -1}}", "greater than 0"),
    ],
)
def test_a_bad_file_is_refused(tmp_path: Any, text: str, message: str) -> None:
    path = tmp_path / "space.yaml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(SpaceError, match=message):
        load_problem(path)


def test_a_space_file_means_what_it_says(tmp_path: Any) -> None:
    """YAML 1.1 takes ``on``, ``no``, ``y`` for true, false, ``1:30`` for 90, ``010`` for 8, ``1e-3`` for a text."""
    path = tmp_path / "space.yaml"
    path.write_text(
        "knobs:\n"
        "  rate: {type: float, low: 1e-5, high: 1e-1, log: true, default: 1e-3}\n"
        "  mode: {type: category, choices: [on, off, auto, yes, no, y], default: off}\n"
        "  odd: {type: category, choices: [2024-01-01, 1:30, 010, 1_000, true, False]}\n",
        encoding="utf-8",
    )
    knobs = load_problem(path).space.knobs
    assert (knobs["rate"].low, knobs["rate"].default) == (1e-5, 1e-3)
    assert knobs["mode"].choices == ("on", "off", "auto", "yes", "no", "y")
    assert knobs["mode"].start == "off"
    assert knobs["odd"].choices == ("2024-01-01", "1:30", 10, "1_000", True, False)


def test_a_missing_file_is_named(tmp_path: Any) -> None:
    with pytest.raises(SpaceError, match="cannot be read"):
        load_problem(tmp_path / "none.yaml")


def test_placeholders_keep_other_braces() -> None:
    command = ("sh", "-c", "echo ${HOME} {a} '{\"b\": {b}}' {other}")
    assert filled_in(command, {"a": True, "b": 0.5})[2] == "echo ${HOME} true '{\"b\": 0.5}' {other}"
