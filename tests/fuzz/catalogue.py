"""All targets of fuzzing by name: the target, the files to start from, and their mutators."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeAlias

from tests.fuzz.input_targets import INPUT_MUTATORS, INPUT_SEEDS, INPUT_TARGETS
from tests.fuzz.json_mutator import mutate_json
from tests.fuzz.root_targets import ROOT_SEEDS, ROOT_TARGETS
from tests.fuzz.table_targets import TABLE_SEEDS, TABLE_TARGETS
from tests.fuzz.targets import MUTATORS, SEEDS, TARGETS
from tests.fuzz.value_targets import VALUE_SEEDS, VALUE_TARGETS
from tests.fuzz.waiver_targets import WAIVER_SEEDS, WAIVER_TARGETS

__all__ = ["ALL_SEEDS", "ALL_TARGETS", "mutate"]

Mutation: TypeAlias = Callable[[bytes, int], bytes]

ALL_TARGETS: Final = {
    **TARGETS,
    **ROOT_TARGETS,
    **INPUT_TARGETS,
    **VALUE_TARGETS,
    **TABLE_TARGETS,
    **WAIVER_TARGETS,
}
ALL_SEEDS: Final = {
    **SEEDS,
    **ROOT_SEEDS,
    **INPUT_SEEDS,
    **VALUE_SEEDS,
    **TABLE_SEEDS,
    **WAIVER_SEEDS,
}
_REPAIRS: Final = {**MUTATORS, **INPUT_MUTATORS}
_JSON: Final = frozenset(
    {
        *(
            "avro_text",
            "base64_commit",
            "boundary",
            "job",
            "job_record",
            "json_schema_text",
            "json_schema_values",
            "kept_schema",
            "ledger",
            "manifest",
            "marker",
            "model",
            "plan",
            "receipt",
            "schema",
            "schema_file",
        ),
        *("shards", "statistics", "table_metadata", "waiver"),
    }
)


def mutate(name: str, data: bytes, seed: int, at_random: Mutation) -> bytes:
    """Return an input of a target, changed.

    JSON stays JSON in two of three cases, and checksums are made right in three of four, so that
    what lies behind parser and checksums is reached; the rest stays damaged.

    Args:
        name: Of the target.
        data: The input.
        seed: Of the choice.
        at_random: Changes any bytes, by a seed.
    """
    changed = mutate_json(data, seed) if name in _JSON and seed % 3 else None
    if changed is None:
        changed = at_random(data, seed)
    repair = _REPAIRS.get(name)
    return repair(changed) if repair is not None and seed % 4 else changed
