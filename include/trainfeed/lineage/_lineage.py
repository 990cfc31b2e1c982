"""Where data came from and what came of them: from positions and files to models, both ways."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trainfeed.datacenters import local_source
from trainfeed.dataset import DatasetFolder, published_in
from trainfeed.dataset.layout import generation_name
from trainfeed.errors import NotFoundError
from trainfeed.intervals import parse_range
from trainfeed.lineage._lineage_graph import LineageGraph
from trainfeed.lineage._source_positions import SourcePosition, record_fate, versions_with
from trainfeed.lineage._trace import Trace
from trainfeed.lineage._traced_jobs import Trainings
from trainfeed.lineage._traced_versions import add_version
from trainfeed.models import ChosenModel, ModelsFolder, known_model
from trainfeed.paths import FilePath
from trainfeed.training.kept_jobs import KeptJob, find_job

__all__ = ["Lineage", "Tracer"]


@dataclass(frozen=True)
class Lineage:
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
        return {
            "focus": list(self.focus),
            **self.graph.to_json(),
            "fates": self.fates,
            "damaged": self.damaged,
            "doubts": list(self.doubts),
        }


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
        found = _readable(folder) if asked is None else published_in(folder, parse_range(asked))
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
        model = known_model(chosen.folder, chosen.now())
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
