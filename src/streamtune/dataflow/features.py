"""``OperatorFeatures``: an operator and its Table I features (StreamTune paper), flattened here and nowhere else."""

from __future__ import annotations

from typing import Self

from pydantic import Field

from streamtune.dataflow.operator import Aggregate, Join, Operator, Window
from streamtune.frozen import Frozen


class OperatorFeatures(Frozen):
    """One operator as one flat row; null where it does not have a feature.

    ``window_slide`` is what a sliding window's spec says; a tumbling window has none.
    """

    id: str = Field(description="unique within the job")
    type: str = Field(description="an identifier; types never seen before are fine")
    window_type: str | None = Field(default=None, description="tumbling, sliding, session or cumulative")
    window_policy: str | None = Field(default=None, description="time or count")
    window_length: float | None = Field(default=None, description="seconds, or tuples of a count window")
    window_slide: float | None = Field(default=None, description="of a sliding window, in the unit of its length")
    join_key_class: str | None = Field(default=None, description="class of a join's key")
    aggregate_class: str | None = Field(default=None, description="class of the value that is aggregated")
    aggregate_key_class: str | None = Field(default=None, description="class of an aggregate's key")
    aggregate_function: str | None = Field(default=None, description="count, sum, max, …")
    tuple_width_in: float | None = Field(default=None, description="fields of a record that comes in")
    tuple_width_out: float | None = Field(default=None, description="fields of a record that goes out")
    tuple_type: str | None = Field(default=None, description="class of the records' fields")

    @classmethod
    def of(cls, operator: Operator) -> Self:
        """Flatten an operator.

        >>> OperatorFeatures.of(Operator(id="j", type="join", join=Join(key_class="long"))).join_key_class
        'long'
        """
        return cls(**table_one(operator))

    def to_operator(self, rate: float | None = None) -> Operator:
        """The operator that this row describes."""
        window = None
        if self.window_type is not None and self.window_length is not None:
            window = Window.model_validate(
                {
                    "type": self.window_type,
                    "policy": self.window_policy or "time",
                    "length": self.window_length,
                    "slide": self.window_slide,
                }
            )
        aggregate = None
        if self.aggregate_function is not None:
            aggregate = Aggregate(
                function=self.aggregate_function,
                value_class=self.aggregate_class or "unknown",
                key_class=self.aggregate_key_class,
            )
        return Operator(
            id=self.id,
            type=self.type,
            window=window,
            aggregate=aggregate,
            join=Join(key_class=self.join_key_class) if self.join_key_class else None,
            tuple_width_in=self.tuple_width_in,
            tuple_width_out=self.tuple_width_out,
            tuple_type=self.tuple_type,
            rate=rate,
        )


def table_one(operator: Operator) -> dict[str, str | float | None]:
    """Column → value of one operator: the fields of ``OperatorFeatures``."""
    window, aggregate, join = operator.window, operator.aggregate, operator.join
    return {
        "id": operator.id,
        "type": operator.type,
        "window_type": window.type if window else None,
        "window_policy": window.policy if window else None,
        "window_length": window.length if window else None,
        "window_slide": window.slide if window else None,
        "join_key_class": join.key_class if join else None,
        "aggregate_class": aggregate.value_class if aggregate else None,
        "aggregate_key_class": aggregate.key_class if aggregate else None,
        "aggregate_function": aggregate.function if aggregate else None,
        "tuple_width_in": operator.tuple_width_in,
        "tuple_width_out": operator.tuple_width_out,
        "tuple_type": operator.tuple_type,
    }


def _columns(kind: type) -> tuple[str, ...]:
    return tuple(name for name, field in OperatorFeatures.model_fields.items() if field.annotation == kind | None)


# Table I by kind of column; ``type`` is a category as well, ``id`` is not a feature.
CATEGORIES = ("type", *_columns(str))
STATIC_NUMBERS = _columns(float)
