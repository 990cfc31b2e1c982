"""Traces where data came from and what came of them, from positions and files to models."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np

from trainfeed.core.canonical_json import JsonFields
from trainfeed.core.datacenters import local_source
from trainfeed.errors import ConfigError, NotFoundError, StorageError
from trainfeed.files import FilePath, listed
from trainfeed.look.lineage.graph import LineageGraph, Trace, Trainings, add_version
from trainfeed.pipeline.plans import unit_of_input
from trainfeed.pipeline.quarantine_access import quarantine_of_version
from trainfeed.training.kept_jobs import KeptJob, find_job
from trainfeed.training.models import ChosenModel, ModelsFolder, known_model
from trainfeed.versions import (
    DatasetFolder,
    PositionFile,
    Version,
    has_positions,
    published_in,
    range_of,
)
from trainfeed.versions.layout import generation_name, is_generation, parse_generation
from trainfeed.versions.root import data_sets_of

# --- A position of a source, and the versions whose inputs contain it

# A member of a union stands before its source.
_POSITION: Final = re.compile(
    r"((?:[a-z][a-z0-9_]{0,62}/)?[a-z][a-z0-9_]{0,31}:.+?)(?:@([0-9]{1,19}))?", re.DOTALL
)


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
        """Read ``kafka:clicks/0@12345``, ``eu/logs:2013-01-01/a.txt@0`` or a source alone.

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
        # Offsets in a compressed file count decompressed bytes, those in a file of rows, which has
        # a kind, its rows: both may exceed its size.
        is_plain = planned.get("compression") == "none" and planned.get("kind") is None
        is_bounded = unit_of_input(planned) == "offsets" or is_plain
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


# --- Where data came from and what came of them: from positions and files to models, both ways


@dataclass(frozen=True)
class Lineage(JsonFields, without=("graph",)):
    """A lineage.

    Attributes:
        focus: Ids of the nodes that were asked for.
        graph: All nodes and edges.
        fates: Id of a version → what became of the asked record in it.
        damaged: Entry → why it could not be read; its part is missing.
        doubts: What else is not covered, one line each.
    """

    focus: tuple[str, ...]
    graph: LineageGraph
    fates: dict[str, dict[str, Any]]
    damaged: dict[str, str]
    doubts: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        """Return the lineage as JSON values."""
        return {**super().to_json(), **self.graph.to_json()}


class Tracer:
    """Traces data through the versions, jobs and models of a publication root.

    Each method makes one lineage; a tracer is used for one.

    Args:
        root: The publication root.
        up: Whether to look for what went in.
        down: Whether to look for what came of it.
    """

    def __init__(self, root: FilePath, *, up: bool = True, down: bool = True) -> None:
        self._trace = Trace(Path(local_source(root)))
        self._trainings = Trainings(self._trace)
        self._up = up
        self._down = down
        self._fates: dict[str, dict[str, Any]] = {}

    def of_version(self, dataset: str, interval: str, generation: int) -> Lineage:
        """Trace one version, also one that was removed.

        Raises:
            NotFoundError: There was never such a version.
        """
        folder = DatasetFolder(self._trace.root, dataset)
        if not 0 < generation <= folder.last_generation(interval):
            raise NotFoundError(
                f"expected a generation of {dataset}/{interval} in {folder.interval(interval)},"
                f" got {generation_name(generation)}; 'trainfeed ls {dataset}' lists the intervals"
            )
        return self._told([self._version(folder, interval, generation)])

    def of_range(self, dataset: str, asked: str | None) -> Lineage:
        """Trace the versions that readers get, of all intervals in a range; None for all.

        Raises:
            WindowError: The range is not valid.
        """
        folder = DatasetFolder(self._trace.root, dataset)
        found = (
            _readable(folder) if asked is None else published_in(folder, range_of(folder, asked))
        )
        return self.of_generations(dataset, found)

    def of_generations(self, dataset: str, generations: Mapping[str, int]) -> Lineage:
        """Trace versions: name of each interval → number of its generation."""
        folder = DatasetFolder(self._trace.root, dataset)
        return self._told([self._version(folder, *each) for each in generations.items()])

    def of_position(self, position: SourcePosition, dataset: str | None = None) -> Lineage:
        """Trace a record, or a whole source, into the versions that read it.

        Args:
            position: The position.
            dataset: The only data set to look into; None for all.
        """
        focus = []
        for folder, version in versions_with(self._trace, position, dataset):
            number = version.manifest.generation
            node = self._version(folder, version.path.parent.name, number)
            focus.append(node)
            with self._trace.entry(f"{folder.name}/{version.name}"):
                self._fates[node] = record_fate(version, position)
        return self._told(focus)

    def of_job(self, name: str) -> Lineage:
        """Trace a training.

        Raises:
            NotFoundError: There is no job of that name.
            JobRejectedError: Its job file is damaged.
        """
        job = find_job(self._trace.root, name)
        node = self._trainings.add_job(job)
        if self._up:
            self._add_versions(job)
        return self._told([node])

    def of_model(self, target: str) -> Lineage:
        """Trace a version of a model, named as ``NAME/vNNNN``, ``NAME@ALIAS`` or ``NAME``.

        Of a version that retention removed, the record is traced.

        Raises:
            ConfigError: ``target`` has another form.
            NotFoundError: There is no such model.
            FormatError: Its manifest is damaged.
        """
        chosen = ChosenModel.parse(ModelsFolder(self._trace.root), target)
        model = known_model(chosen.folder, chosen.resolve())
        node = self._trainings.add_model(model)
        if self._up:
            job = model.manifest.job
            self._trainings.add_versions_of(job.name, job.dataset, model.manifest.data)
        return self._told([node])

    def _version(self, folder: DatasetFolder, interval: str, generation: int) -> str:
        node = add_version(self._trace, folder, interval, generation, inputs=self._up)
        if self._down:
            for job in self._trainings.readers_of(folder.name, interval, generation):
                self._trace.graph.connect(node, job)
        return node

    def _add_versions(self, job: KeptJob) -> None:
        self._trainings.add_versions_of(job.job.name, job.job.dataset, job.job.versions)
        for name in job.job.skipped:
            self._trace.doubt(f"job {job.job.name} left interval {name} out, by decision")
        for hole in job.job.accepted:
            self._trace.doubt(f"job {job.job.name} read over the accepted hole {hole}")

    def _told(self, focus: list[str]) -> Lineage:
        trace = self._trace
        graph = trace.graph.seen_from(focus, up=self._up, down=self._down)
        return Lineage(tuple(focus), graph, self._fates, trace.damaged, tuple(trace.doubts))


def _readable(folder: DatasetFolder) -> dict[str, int]:
    """Return all intervals, in order, with the generation for readers."""
    found = {name: folder.readable_generation(name) for name in folder.intervals()}
    return {name: number for name, number in found.items() if number is not None}
