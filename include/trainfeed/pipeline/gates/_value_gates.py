"""Gates on the values of one scalar field: accepted values, and the share of one value."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any, Final, cast

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from trainfeed.errors import ConfigError
from trainfeed.pipeline.gates._gate_facts import Facts
from trainfeed.pipeline.gates._gate_result import GateResult
from trainfeed.pipeline.gates._limited import limited
from trainfeed.pipeline.gates._scanned_samples import SampleColumns, shown_value
from trainfeed.pipeline.plans import Plan
from trainfeed.pipeline.quarantine import Example
from trainfeed.reading_rules import ReadingRules
from trainfeed.samples import absent_rows
from trainfeed.specification import Gate
from trainfeed.usercode import load_lookup, typed_cells

__all__ = ["AcceptedValues", "Share"]

_MOST_EXAMPLES: Final = 2
_MOST_NAMED: Final = 5
# Other values that are counted one by one; of further ones only their number is known.
_MOST_COUNTED: Final = 1000


class AcceptedValues:
    """Counts samples whose value is not an accepted one.

    Args:
        gate: A gate ``accepted_values``.
        facts: The facts; the stage for a lookup.

    Raises:
        ConfigError: The lookup has no such column.
        CodeChangedError: The lookup is not the one of the plan.
    """

    def __init__(self, gate: Gate, facts: Facts) -> None:
        self._gate = gate
        self._field = str(gate["field"])
        values = gate.get("values")
        self._accepted = frozenset(
            _lookup_keys(gate, facts) if values is None else cast("Iterable[object]", values)
        )
        self._samples = self._others = 0
        self._counter: Counter[object] = Counter()
        self._examples: list[Example] = []

    def add(self, block: SampleColumns) -> None:
        """Look at further samples."""
        column = block.columns[self._field]
        rows = np.flatnonzero(~(_is_one_of(column, self._accepted) | _absent(column)))
        self._samples += len(block)
        self._others += len(rows)
        for value, count in _counted(column[rows]):
            if value in self._counter or len(self._counter) < _MOST_COUNTED:
                self._counter[value] += count
        for row in rows[: _MOST_EXAMPLES - len(self._examples)].tolist():
            message = f"{self._field} is {shown_value(column[row])}"
            self._examples.append(block.example(row, message))

    def result(self) -> GateResult:
        """Return the share of samples with another value."""
        share = self._others / self._samples if self._samples else 0.0
        named = ", ".join(
            f"{shown_value(value)} {count} times"
            for value, count in self._counter.most_common(_MOST_NAMED)
        )
        because = f"{self._others} of {self._samples} samples have another value"
        return GateResult(
            self._gate,
            share,
            passed=share <= float(cast("float", self._gate["max"])),
            because=f"{because}: {named}" if named else because,
            examples=self._examples,
        )


class Share:
    """Counts samples that have one value.

    Args:
        gate: A gate ``share``.
    """

    def __init__(self, gate: Gate, _: Facts) -> None:
        self._gate = gate
        self._samples = self._found = 0

    def add(self, block: SampleColumns) -> None:
        """Look at further samples."""
        column = block.columns[str(self._gate["field"])]
        is_value = _is_one_of(column, frozenset([self._gate["equals"]])) & ~_absent(column)
        self._samples += len(block)
        self._found += int(np.count_nonzero(is_value))

    def result(self) -> GateResult:
        """Return the share of samples with the value; None without samples, which passes."""
        share = self._found / self._samples if self._samples else None
        value = shown_value(self._gate["equals"])
        return limited(self._gate, share, f"{self._found} of {self._samples} samples are {value}")


def _absent(column: NDArray[Any]) -> NDArray[np.bool_]:
    if column.dtype == object:
        return np.fromiter((value is None for value in column), np.bool_, len(column))
    return absent_rows(column)


def _is_one_of(column: NDArray[Any], values: frozenset[object]) -> NDArray[np.bool_]:
    """Return True for rows that have one of some values; those of absent rows mean nothing."""
    if column.dtype == object:
        # Values of dtype bytes are compared with the UTF-8 bytes of texts.
        known = values | {value.encode() for value in values if isinstance(value, str)}
        return np.fromiter((value in known for value in column), np.bool_, len(column))
    fitting = [value for value in values if _fits(column.dtype, value)]
    return np.isin(np.ma.getdata(column), np.array(fitting, dtype=column.dtype))


def _fits(dtype: np.dtype[Any], value: object) -> bool:
    if dtype.kind == "b":
        return isinstance(value, bool)
    if isinstance(value, bool) or not isinstance(value, int):
        return False
    return bool(np.iinfo(dtype).min <= value <= np.iinfo(dtype).max)


def _counted(values: NDArray[Any]) -> Iterable[tuple[object, int]]:
    return Counter(np.ma.getdata(values).tolist()).items()


def _lookup_keys(gate: Gate, facts: Facts) -> Iterable[object]:
    if facts.stage is None:
        return ()
    name = str(gate["lookup"])
    plan = facts.stage.plan
    table = load_lookup(facts.stage.spec, name, plan.lookups.get(name), plan.rules)
    column = gate.get("column") or table.column_names[0]
    if column not in table.column_names:
        raise ConfigError(
            f"expected a column of lookup {gate['lookup']!r} ({', '.join(table.column_names)}), got"
            f" {column!r} in the gate accepted_values of {gate['field']}; nothing was published;"
            " correct it in dataset.yaml, then build the interval again"
        )
    found = _of_field(gate, plan, table[column]).to_pylist()
    return (value for value in found if value is not None)


def _of_field(gate: Gate, plan: Plan, column: pa.ChunkedArray) -> pa.Array | pa.ChunkedArray:
    """Return the values of a lookup; texts, for a field of whole numbers or bools, as such."""
    (dtype,) = (str(each["dtype"]) for each in plan.fields if each["name"] == gate["field"])
    if not pa.types.is_string(column.type) or dtype in {"str", "bytes"}:
        return column
    if plan.rules is ReadingRules.GUESSED:
        return column
    try:
        return typed_cells(str(gate["lookup"]), column.to_pylist(), dtype)
    except ValueError as error:
        raise ConfigError(
            f"the lookup of gate accepted_values of {gate['field']}: {error}; nothing was"
            " published; correct the file, then build the interval again"
        ) from error
