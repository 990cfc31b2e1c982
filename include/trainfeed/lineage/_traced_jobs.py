"""Trainings in a lineage: which versions they read, and which models came of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from trainfeed.dataset import DatasetFolder
from trainfeed.dataset.layout import generation_name, is_generation, is_name, parse_generation
from trainfeed.jobs import JobVersion
from trainfeed.lineage._lineage_graph import Node
from trainfeed.lineage._trace import Trace
from trainfeed.lineage._traced_versions import add_version
from trainfeed.models import (
    Model,
    ModelData,
    ModelFolder,
    ModelManifest,
    ModelsFolder,
    RemovedModel,
    current_version,
    known_model,
)
from trainfeed.models import model_version as version_of_model
from trainfeed.training.kept_jobs import KeptJob, job_homes, kept_job

__all__ = ["Trainings"]


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
