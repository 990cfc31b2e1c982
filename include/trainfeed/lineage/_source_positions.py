"""A position of a source, and the versions whose inputs contain it.

Every manifest of every generation is opened: no index is kept, and none is trusted. The positions
of samples are read only in the versions whose inputs contain the position.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from trainfeed.dataset import DatasetFolder, PositionFile, Version, has_positions
from trainfeed.dataset.layout import generation_name, is_generation, parse_generation
from trainfeed.dataset.root import data_sets_of
from trainfeed.errors import ConfigError, StorageError
from trainfeed.lineage._trace import Trace
from trainfeed.paths import listed
from trainfeed.pipeline.plans import unit_of_input
from trainfeed.pipeline.quarantine import quarantine_of_version

__all__ = ["SourcePosition", "record_fate", "versions_with"]

_POSITION: Final = re.compile(r"([a-z][a-z0-9_]{0,31}:.+?)(?:@([0-9]{1,19}))?", re.DOTALL)


@dataclass(frozen=True)
class SourcePosition:
    """A source, or one record of it.

    Attributes:
        source: Source string, as in ``kafka:clicks/0``.
        offset: Offset of the record; None for the whole source.
    """

    source: str
    offset: int | None

    @classmethod
    def parse(cls, text: str) -> SourcePosition:
        """Read ``kafka:clicks/0@12345``, ``logs:dt=2013-01-01/a.txt@0`` or a source alone.

        Raises:
            ConfigError: ``text`` has another form.
        """
        match = _POSITION.fullmatch(text)
        if match is None:
            raise ConfigError(
                "expected a position such as kafka:TOPIC/PARTITION@OFFSET or logs:FILE@BYTE, got"
                f" {text[:80]!r}"
            )
        return cls(match[1], None if match[2] is None else int(match[2]))

    def is_in(self, inputs: Mapping[str, Mapping[str, Any]]) -> bool:
        """Return whether the inputs of a version contain the position."""
        planned = inputs.get(self.source)
        if planned is None or self.offset is None:
            return planned is not None
        # Offsets in a compressed file count decompressed bytes, so they may exceed its size.
        is_bounded = unit_of_input(planned) == "offsets" or planned.get("compression") == "none"
        return bool(not is_bounded or planned["start"] <= self.offset < planned["end"])


def versions_with(
    trace: Trace, position: SourcePosition, dataset: str | None
) -> Iterator[tuple[DatasetFolder, Version]]:
    """Yield the versions whose inputs contain a position, of one data set or of all.

    Damaged versions are noted in the trace.
    """
    for name in data_sets_of(trace.root) if dataset is None else [dataset]:
        folder = DatasetFolder(trace.root, name)
        for interval in folder.intervals():
            for generation in _generations(folder, interval):
                with trace.entry(f"{name}/{interval}/{generation_name(generation)}"):
                    version = Version.resolve(folder, interval, generation)
                    if position.is_in(version.manifest.inputs):
                        yield folder, version


def _generations(folder: DatasetFolder, interval: str) -> list[int]:
    """Return all generations with a folder, withdrawn ones included, ascending."""
    names = [path.name for path in listed(folder.interval(interval))]
    numbers = sorted(parse_generation(name) for name in names if is_generation(name))
    return [number for number in numbers if f"{generation_name(number)}.removed" not in names]


def record_fate(version: Version, position: SourcePosition) -> dict[str, Any]:
    """Return what became of a record in a version.

    Returns:
        ``fate``: ``valid`` with ``samples`` and ``splits``, ``quarantined`` with ``reason``, or
        ``no sample`` or ``unknown`` with ``why``.

    Raises:
        FormatError: A file of the version is damaged.
        StorageError: A file cannot be read.
    """
    if position.offset is None:
        return {}
    index = version.manifest.sources.index(position.source)
    if not has_positions(version):
        return {"fate": "unknown", "why": "the version was published without positions"}
    if splits := _splits_with(version, index, position.offset):
        return {"fate": "valid", "samples": splits.total(), "splits": sorted(splits)}
    return _quarantined(version, index, position) or {
        "fate": "no sample",
        "why": "the record was filtered, or there is none at this offset",
    }


def _splits_with(version: Version, index: int, offset: int) -> Counter[str]:
    positions = PositionFile(version)
    found: Counter[str] = Counter()
    for split in version.manifest.splits:
        for rows in positions.rows(split):
            if count := int(((rows.sources == index) & (rows.offsets == offset)).sum()):
                found[split] += count
    return found


def _quarantined(version: Version, index: int, position: SourcePosition) -> dict[str, Any] | None:
    if not version.manifest.quarantine["records"]:
        return None
    try:
        for part in quarantine_of_version(version).positions():
            rows = np.flatnonzero((part.sources == index) & (part.offsets == position.offset))
            if len(rows):
                return {"fate": "quarantined", "reason": part.reasons[int(rows[0])]}
    except StorageError as error:
        return {"fate": "unknown", "why": f"no sample; the quarantine cannot be read: {error}"}
    return None
