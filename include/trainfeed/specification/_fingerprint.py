"""What of a specification determines the content of a version."""

from __future__ import annotations

from typing import Any

from trainfeed.specification._dataset_part import OutputSpec
from trainfeed.specification._model import DatasetSpec

__all__ = ["fingerprint_fields"]


def fingerprint_fields(spec: DatasetSpec) -> dict[str, Any]:
    """The values of ``spec`` that enter the fingerprint, defaults written out, as plain JSON.

    Equal content has equal values however the file was written: ``0.9`` or ``0.90``, a default
    given or left out. Offsets, code and lookups determine the content too; they are not here.
    An option that is added to a specification later is left out while it has its default.
    """
    return {
        "schema": spec.schema_fields(),
        "preprocess": {"function": spec.preprocess.function, "input": spec.preprocess.input},
        "split": {
            "by": "record" if spec.split.by is None else list(spec.split.by),
            "millionths": spec.split.millionths,
        },
        "output": _output(spec.output),
        "source": dict(spec.source.kind.fingerprint()),
        "seed": spec.seed,
    }


def _output(output: OutputSpec) -> dict[str, Any]:
    return {
        "format": output.format,
        "codec": output.codec,
        "level": output.level,
        "chunk_bytes": output.chunk_bytes,
        "shards": output.shards,
        "samples_per_shard": output.samples_per_shard,
        "positions": output.positions,
    }
