"""The graph of a lineage, and what a trace adds to it: versions, their inputs, jobs, models."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias

from trainfeed.core.canonical_json import JsonFields
from trainfeed.errors import FormatError, JobRejectedError, StorageError
from trainfeed.pipeline.plans import unit_of_input
from trainfeed.training.jobs import JobVersion
from trainfeed.training.kept_jobs import KeptJob, job_homes, kept_job
from trainfeed.training.models import (
    Model,
    ModelData,
    ModelFolder,
    ModelManifest,
    ModelsFolder,
    RemovedModel,
    current_version,
    known_model,
)
from trainfeed.training.models import model_version as version_of_model
from trainfeed.versions import DatasetFolder, Manifest
from trainfeed.versions.layout import generation_name, is_generation, is_name, parse_generation
from trainfeed.versions.withdraw import withdrawal_of

# --- The graph of a lineage: things, and which of them came from which

NodeKind: TypeAlias = Literal[
    "input", "schema", "upload", "lookup", "code", "version", "job", "start model", "model", "alias"
]


@dataclass(frozen=True)
class Node(JsonFields, also=("id",)):
    """A thing that data came from, or went into.

    Attributes:
        kind: Kind of the thing.
        name: Its name, unique among its kind.
        facts: What is known of it, as JSON values.
    """

    kind: NodeKind
    name: str
    facts: Mapping[str, Any] = field(default_factory=dict)

    @property
    def id(self) -> str:
        """Kind and name: ``version clicks/2024-03-01/g0001``."""
        return f"{self.kind} {self.name}"


class LineageGraph:
    """Nodes, and edges in the direction in which data flow: from inputs to models.

    Attributes:
        nodes: Id → node, in the order in which they were added.
    """

    def __init__(self) -> None:
        self.nodes: dict[str, Node] = {}
        self._sources: dict[str, list[str]] = {}
        self._targets: dict[str, list[str]] = {}

    def __contains__(self, node: str) -> bool:
        return node in self.nodes

    def add(self, node: Node) -> str:
        """Add a node, unless it is there, and return its id."""
        self.nodes.setdefault(node.id, node)
        return node.id

    def connect(self, source: str, target: str) -> None:
        """Add the edge between two ids, unless it is there."""
        targets = self._targets.setdefault(source, [])
        if target not in targets:
            targets.append(target)
            self._sources.setdefault(target, []).append(source)

    def sources(self, node: str) -> list[Node]:
        """Return the nodes that the data of a node came from."""
        return [self.nodes[each] for each in self._sources.get(node, [])]

    def targets(self, node: str) -> list[Node]:
        """Return the nodes that the data of a node went into."""
        return [self.nodes[each] for each in self._targets.get(node, [])]

    def edges(self) -> Iterator[tuple[str, str]]:
        """Yield all edges as (source, target)."""
        for source, targets in self._targets.items():
            yield from ((source, target) for target in targets)

    def seen_from(self, focus: Iterable[str], *, up: bool, down: bool) -> LineageGraph:
        """Return the part of the graph that edges lead to from some nodes.

        Args:
            focus: Ids of the nodes.
            up: Whether edges are followed against their direction.
            down: Whether edges are followed in their direction.
        """
        seen = set(focus)
        for follows, step in ((up, self.sources), (down, self.targets)):
            ahead = list(focus) if follows else []
            while ahead:
                found = {node.id for node in step(ahead.pop())} - seen
                seen |= found
                ahead += found
        part = LineageGraph()
        part.nodes = {name: node for name, node in self.nodes.items() if name in seen}
        for source, target in self.edges():
            if source in seen and target in seen:
                part.connect(source, target)
        return part

    def to_json(self) -> dict[str, Any]:
        """Return nodes and edges as JSON values."""
        return {
            "nodes": [node.to_json() for node in self.nodes.values()],
            "edges": [{"source": source, "target": target} for source, target in self.edges()],
        }


# --- The state of one trace: the graph so far, and the entries that could not be read

# A job file is refused as a job; other errors of entries are about their bytes or the file system.
_UNREADABLE: Final = (FormatError, JobRejectedError, StorageError)


@dataclass(frozen=True)
class Trace:
    """What a trace has found.

    Attributes:
        root: The publication root.
        graph: The graph.
        damaged: Entry → why it could not be read; its part of the lineage is missing.
        doubts: What else the lineage does not cover, one line each.
    """

    root: Path
    graph: LineageGraph = field(default_factory=LineageGraph)
    damaged: dict[str, str] = field(default_factory=dict)
    doubts: list[str] = field(default_factory=list)

    @contextmanager
    def entry(self, name: str) -> Iterator[None]:
        """Name an entry that cannot be read in the block, and go on behind the block."""
        try:
            yield
        except _UNREADABLE as error:
            self.damaged[name] = f"{type(error).__name__}: {error}"

    def doubt(self, line: str) -> None:
        """Note what the lineage does not cover, once."""
        if line not in self.doubts:
            self.doubts.append(line)


# --- Versions of data sets in a lineage, and what went into them


def version_name(dataset: str, interval: str, generation: int) -> str:
    """Return the name of a version in a lineage: ``clicks/2024-03-01/g0001``."""
    return f"{dataset}/{interval}/{generation_name(generation)}"


def add_version(
    trace: Trace, folder: DatasetFolder, interval: str, generation: int, *, inputs: bool
) -> str:
    """Add a version to a trace, also one that is removed or damaged, and return its id.

    Args:
        trace: The trace.
        folder: The data set.
        interval: Name of the interval.
        generation: Number of the generation.
        inputs: Whether to add what went into it, too.
    """
    name = version_name(folder.name, interval, generation)
    manifest, digest = None, None
    with trace.entry(name):
        if not folder.is_removed(interval, generation):
            manifest, digest = Manifest.read(folder.version(interval, generation))
    state = _state(trace, folder, interval, generation, name)
    facts: dict[str, Any] = {"state": state, "manifest_sha256": digest}
    if state == "withdrawn" and (mark := withdrawal_of(folder, interval, generation)) is not None:
        facts["withdrawn"] = mark.told
    if manifest is not None:
        facts |= _facts(manifest)
    version = trace.graph.add(Node("version", name, facts))
    if manifest is not None and inputs:
        for node in _inputs(folder, manifest):
            trace.graph.connect(trace.graph.add(node), version)
    return version


def _state(trace: Trace, folder: DatasetFolder, interval: str, generation: int, name: str) -> str:
    if name in trace.damaged:
        return "damaged"
    if folder.is_removed(interval, generation):
        return "removed"
    if generation not in folder.generations(interval):
        return "withdrawn"
    return "for readers" if folder.readable_generation(interval) == generation else "published"


def _facts(manifest: Manifest) -> dict[str, Any]:
    return {
        "samples": manifest.num_samples(),
        "fingerprint": manifest.fingerprint,
        "content_digest": manifest.content_digest,
        "plan": manifest.plan,
        "built_because": (manifest.supersedes or {}).get("why"),
    }


def _inputs(folder: DatasetFolder, manifest: Manifest) -> Iterator[Node]:
    for source, planned in manifest.inputs.items():
        read = manifest.ledger.get(source, {}).get("read", {}).get("records", 0)
        yield _input(source, planned, read)
    for writer in manifest.schemas.get("writers", []):
        yield Node("schema", f"{writer['registry']}/{writer['id']}", writer)
    for upload in manifest.uploads.get("files", []):
        yield Node("upload", f"{folder.name}/uploads/{upload['name']}", upload)
    for name, digest in manifest.lookups.items():
        yield _digested(folder, "lookup", name, digest, is_kept=folder.lookup(digest).exists())
    digest = manifest.code["digest"]
    files = ", ".join(manifest.code.get("files", []))
    yield _digested(folder, "code", files, digest, is_kept=folder.code(digest).exists())


def _input(source: str, planned: Mapping[str, Any], num_records: int) -> Node:
    start, end = planned["start"], planned["end"]
    unit = unit_of_input(planned)
    name = f"{source}@{start}-{end}" if unit == "offsets" else source
    return Node("input", name, {**planned, "source": source, "unit": unit, "records": num_records})


def _digested(
    folder: DatasetFolder, kind: NodeKind, name: str, digest: str, *, is_kept: bool
) -> Node:
    facts = {"name": name, "sha256": digest, "kept": is_kept}
    return Node(kind, f"{folder.name} {name} {digest[:16]}", facts)


# --- Trainings in a lineage: which versions they read, and which models came of them


@dataclass
class Trainings:
    """The jobs and models of a publication root; each is read at most once.

    Attributes:
        trace: Gets what is found.
    """

    trace: Trace
    _jobs: dict[str, list[KeptJob]] = field(default_factory=dict)
    _readers: dict[str, dict[tuple[str, str], list[KeptJob]]] = field(default_factory=dict)
    _models: list[Model | RemovedModel] | None = None

    def readers_of(self, dataset: str, interval: str, generation: int) -> list[str]:
        """Add the jobs that read a version, and what came of them; return their names."""
        key = (interval, generation_name(generation))
        readers = self._jobs_by_version(dataset).get(key, [])
        found = {job.job.name: self.add_job(job) for job in readers}
        for model in self.models():
            manifest = model.manifest
            read = {(each.interval, each.generation) for each in manifest.data}
            if manifest.job.dataset == dataset and key in read and manifest.job.name not in found:
                found[manifest.job.name] = self._add_forgotten(manifest)
                self.add_models_of(manifest.job.name, dataset)
        return list(found.values())

    def add_job(self, job: KeptJob) -> str:
        """Add a job and its models, without its versions; return its id."""
        name = job.job.name
        is_known = f"job {name}" in self.trace.graph
        node = self.trace.graph.add(Node("job", name, self._facts(job)))
        if not is_known:
            if (digest := job.job.start_model) is not None:
                start = Node("start model", digest[:16], {"manifest_sha256": digest})
                self.trace.graph.connect(self.trace.graph.add(start), node)
            self.add_models_of(name, job.job.dataset)
        return node

    def add_versions_of(
        self, job: str, dataset: str, read: Sequence[JobVersion | ModelData]
    ) -> None:
        """Add the versions that a job in the graph read, with their inputs."""
        for version in read:
            self._add_read(job, dataset, version)

    def add_models_of(self, job: str, dataset: str) -> None:
        """Add the models that a job made, and the aliases that point to them."""
        for model in self.models():
            if (model.manifest.job.name, model.manifest.job.dataset) == (job, dataset):
                self.add_model(model)

    def add_model(self, model: Model | RemovedModel) -> str:
        """Add a model, its job and its aliases; return its id."""
        node = self.trace.graph.add(Node("model", model.name, model.to_json()))
        job = f"job {model.manifest.job.name}"
        if job not in self.trace.graph:
            job = self._job_of(model.manifest)
        self.trace.graph.connect(job, node)
        folder = ModelsFolder(self.trace.root).model(model.manifest.model)
        for alias in self._aliases(folder, model.manifest.version):
            self.trace.graph.connect(node, self.trace.graph.add(alias))
        return node

    def jobs(self, dataset: str) -> list[KeptJob]:
        """Return the jobs of a data set; damaged ones are noted."""
        if dataset not in self._jobs:
            self._jobs[dataset] = list(self._read_jobs(dataset))
        return self._jobs[dataset]

    def job_named(self, dataset: str, name: str) -> KeptJob | None:
        """Return the job of a name, or None if its folder is gone or damaged."""
        return next((job for job in self.jobs(dataset) if job.job.name == name), None)

    def models(self) -> list[Model | RemovedModel]:
        """Return the versions of all models, also removed ones; damaged ones are noted."""
        if self._models is None:
            self._models = list(self._read_models())
        return self._models

    def _jobs_by_version(self, dataset: str) -> dict[tuple[str, str], list[KeptJob]]:
        """Return the jobs that read each version, found once for all versions that are asked."""
        if dataset not in self._readers:
            readers = self._readers[dataset] = {}
            for job in self.jobs(dataset):
                for key in {(each.interval, each.generation) for each in job.job.versions}:
                    readers.setdefault(key, []).append(job)
        return self._readers[dataset]

    def _read_jobs(self, dataset: str) -> Iterator[KeptJob]:
        for home in job_homes(self.trace.root, dataset):
            with self.trace.entry(f"job {home.name}"):
                yield kept_job(self.trace.root, home)

    def _read_models(self) -> Iterator[Model | RemovedModel]:
        models = ModelsFolder(self.trace.root)
        for name in models.names():
            folder = models.model(name)
            for number in (*folder.versions(), *folder.removed_versions()):
                with self.trace.entry(f"model {name}/{version_of_model(number)}"):
                    yield known_model(folder, number)

    def _aliases(self, folder: ModelFolder, number: int) -> Iterator[Node]:
        for alias in folder.aliases():
            with self.trace.entry(f"alias {folder.name}@{alias}"):
                if current_version(folder, alias) == version_of_model(number):
                    yield Node("alias", f"{folder.name}@{alias}")

    def _job_of(self, manifest: ModelManifest) -> str:
        job = self.job_named(manifest.job.dataset, manifest.job.name)
        return self._add_forgotten(manifest) if job is None else self.add_job(job)

    def _add_forgotten(self, manifest: ModelManifest) -> str:
        """Add a job of which only a model is left."""
        facts = {**manifest.job.model_dump(exclude={"name"}), "state": "its folder is gone"}
        return self.trace.graph.add(Node("job", manifest.job.name, facts))

    def _add_read(self, job: str, dataset: str, read: JobVersion | ModelData) -> None:
        if not (is_name(read.interval) and is_generation(read.generation)):
            name = f"{read.interval}/{read.generation}"
            self.trace.damaged[f"job {job}"] = f"expected the name of a version, got {name!r}"
            return
        folder = DatasetFolder(self.trace.root, dataset)
        number = parse_generation(read.generation)
        node = add_version(self.trace, folder, read.interval, number, inputs=True)
        digest = self.trace.graph.nodes[node].facts.get("manifest_sha256")
        if digest not in {None, read.manifest_sha256}:
            self.trace.doubt(f"job {job} read another {node} than the one that is there now")
        self.trace.graph.connect(node, f"job {job}")

    def _facts(self, job: KeptJob) -> dict[str, Any]:
        spec = job.job
        facts: dict[str, Any] = {
            "dataset": spec.dataset,
            "interval": spec.interval,
            "runs": spec.entry or spec.command,
            "code": spec.code,
            "seed": spec.seed,
            "ranks": spec.ranks,
            "launcher": "local" if spec.placement is None else spec.placement.launcher,
            "folder": str(job.record.home),
            "state": "without a result",
        }
        with self.trace.entry(f"result of job {spec.name}"):
            result = job.record.result()
            if result is not None:
                facts |= {"state": "succeeded", "metrics": dict(result.metrics)}
        return facts
