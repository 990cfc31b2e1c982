"""A small published data set whose training runs on the cluster, and what became of its jobs."""

from __future__ import annotations

import os
import subprocess
import sys
import uuid
from dataclasses import dataclass, replace
from pathlib import Path

from ruamel.yaml import YAML

from services.kubernetes import IMAGE, NAMESPACE
from tests.integration.kubernetes.cluster import Lab, until
from tests.unit.pipeline.clicks import CODE, SPEC
from trainfeed.core.config import Environment
from trainfeed.core.faults import VARIABLE
from trainfeed.specification import load_spec
from trainfeed.training.jobs.kubernetes.objects import kind_of, object_name
from trainfeed.training.launch import collect, launch, look

INTERVAL = "2024-03-01"
CONNECTION = "kubernetes_default"
REPOSITORY = Path(__file__).parents[3]
# Counts what it reads, so that a result shows that the data were there.
TRAIN = """
def main(job):
    samples = sum(1 for split in ("train", "eval") for _ in job.open(split).reader()())
    if job.rank == 0:
        (job.output / "model.txt").write_text("weights")
    return {"samples": samples, "ranks": job.world_size}
"""


@dataclass(frozen=True)
class Training:
    """A data set with a training of its own, over the versions that all tests share.

    Attributes:
        lab: The cluster.
        env: Where things are.
    """

    lab: Lab
    env: Environment

    @property
    def spec(self):
        return load_spec(self.env.datasets / "clicks")

    @property
    def interval(self):
        return self.spec.schedule_model().interval_named(INTERVAL)

    def launch(self, again=None):
        return launch(self.spec, self.env, self.interval, again=again)

    def finished(self, launched):
        """Wait until a job has ended; returns where it stands then."""
        return until(lambda: now if not (now := look(launched)).state.is_live else None)

    def collect(self, launched):
        return collect(self.spec, launched, seconds=0.0)

    def train(self, again=None):
        launched = self.launch(again)
        self.finished(launched)
        return self.collect(launched)

    def jobs(self):
        """Objects of the cluster with the identity of the job, of all its attempts."""
        collection = kind_of(self.spec.train.launcher).collection
        _, _, group, version, plural = collection.split("/")
        place = (group, version, self.namespace, plural)
        found = self.lab.admin.custom.list_namespaced_custom_object(*place)["items"]
        identity, mark = self.planned.identity, "trainfeed/identity"
        return [j for j in found if j["metadata"].get("annotations", {}).get(mark) == identity]

    @property
    def planned(self):
        """The job as it would be launched now."""
        from trainfeed.training.launch import window_job
        from trainfeed.versions import DatasetFolder

        folder = DatasetFolder(Path(self.env.root), "clicks")
        return window_job(self.spec, self.env, folder, self.interval)

    @property
    def name(self):
        """Name of the objects of the first attempt."""
        return object_name(self.planned)

    @property
    def namespace(self):
        return self.env.clusters[CONNECTION]["namespace"]

    def set(self, **settings):
        """The same training by other settings of the cluster."""
        cluster = {**self.env.clusters[CONNECTION], **settings}
        return replace(self, env=replace(self.env, clusters={CONNECTION: cluster}))

    def command(self, *arguments, faults=""):
        """Run ``trainfeed`` in a process of its own, which may be killed at a fault point."""
        clusters = self.env.datasets / "clusters.yaml"
        YAML(typ="safe").dump(dict(self.env.clusters), clusters)
        environ = {
            **os.environ,
            VARIABLE: faults,
            "TRAINFEED_ROOT": self.env.root,
            "TRAINFEED_DATASETS": str(self.env.datasets),
            "TRAINFEED_CLUSTERS": str(clusters),
            "PYTHONPATH": f"{REPOSITORY}:{REPOSITORY / 'include'}",
        }
        return subprocess.run(
            [sys.executable, "-m", "trainfeed", *arguments],
            env=environ,
            cwd=self.env.datasets.parent,
            capture_output=True,
            text=True,
            check=False,
        )


def make_training(lab: Lab, published: Environment, folder: Path, **options) -> Training:
    """Write a data set whose jobs nobody else has: a variable of its own is in their identity.

    Args:
        lab: The cluster.
        published: Where the versions are.
        folder: Of the test.
        options: Those of ``train``; ``code`` is the text of ``train.py``.
    """
    datasets = folder / "include" / "datasets"
    (datasets / "clicks").mkdir(parents=True)
    (datasets / "clicks" / "preprocess.py").write_text(CODE)
    (datasets / "clicks" / "train.py").write_text(options.pop("code", TRAIN))
    spec = YAML(typ="safe").load(SPEC)
    own = {"TEST": uuid.uuid4().hex, **options.pop("environment", {})}
    train = {"entry": "train:main", "launcher": "indexed-job", "ranks": 2, "environment": own}
    spec["train"] = {k: v for k, v in {**train, **options}.items() if v is not None}
    with (datasets / "clicks" / "dataset.yaml").open("w") as file:
        YAML(typ="safe").dump(spec, file)
    cluster = {
        "kubeconfig": str(lab.service.files.kubeconfig("trainfeed")),
        "namespace": NAMESPACE,
        "root": {"path": "/pfs/dataset", "host_path": published.root},
        "image": IMAGE,
        "images": ["trainfeed/*"],
    }
    return Training(lab, replace(published, datasets=datasets, clusters={CONNECTION: cluster}))
