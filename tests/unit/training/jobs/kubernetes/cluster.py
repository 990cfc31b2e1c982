"""An API server in memory, which fails as it is told to; and jobs for it."""

from __future__ import annotations

import copy
from dataclasses import replace

from trainfeed.core import canonical_json
from trainfeed.functions import digest_of_texts, training_texts
from trainfeed.training.jobs import (
    ClusterSettings,
    JobPlacement,
    JobRecord,
    JobRoots,
    JobSpec,
    JobVersion,
)
from trainfeed.training.jobs.kubernetes.api import ApiError
from trainfeed.training.jobs.kubernetes.launcher import KubernetesLauncher

IMAGE = "registry.example/trainers/flights@sha256:" + "0" * 64
SETTINGS = {
    "namespace": "training",
    "root": {"path": "/pfs/dataset", "claim": "cephfs"},
    "images": ["registry.example/trainers/*"],
    "volumes": {
        "scratch": {"path": "/scratch", "claim": "scratch"},
        "vocabulary": {"path": "/vocabulary", "host_path": "/srv/vocabulary", "read_only": True},
    },
    "service_account": "trainer",
}
CODE = "def main(job):\n    return {'auc': 0.7}\n"


class Cluster:
    """Objects by path. ``faults`` are errors to raise, one for each next call that they fit."""

    def __init__(self):
        self.objects = {}
        self.calls = []
        self.faults = []
        self.lost = set()  # verbs whose next answer is lost on the way back
        self.pods = []
        self.log = ""

    def request(self, method, path, *, body=None, query=None):  # noqa: ARG002 - as servers have it
        self.calls.append((method, path))
        for fault in list(self.faults):
            if fault[0] in {method, "*"}:
                self.faults.remove(fault)
                raise fault[1]
        answer = self._done(method, path, body)
        if method in self.lost:
            self.lost.discard(method)
            raise ApiError("connection reset", status=None)
        return answer

    def text(self, path, query, max_bytes):  # noqa: ARG002
        self.request("GET", path.removesuffix("/log"))
        return self.log[-max_bytes:]

    def jobs(self):
        kinds = ("/jobs/", "jobs/", "jobsets/")
        return [o for path, o in self.objects.items() if any(k in path for k in kinds)]

    def set_status(self, **status):
        for found in self.jobs():
            found["status"] = status

    def _done(self, method, path, body):
        if method == "POST":
            name = f"{path}/{body['metadata']['name']}"
            if name in self.objects:
                raise ApiError("already exists", status=409)
            self.objects[name] = copy.deepcopy(dict(body))
            self.objects[name]["metadata"]["uid"] = f"uid-{len(self.objects)}"
            return copy.deepcopy(self.objects[name])
        if path.endswith("/pods"):
            return {"items": self.pods}
        if path not in self.objects and "/pods/" not in path:
            raise ApiError("not found", status=404)
        if method == "DELETE":
            return self.objects.pop(path)
        return copy.deepcopy(self.objects.get(path, {}))


class Ground:
    """A publication root, a folder of code, and a cluster."""

    def __init__(self, path):
        self.root, self.code = path / "root", path / "flights"
        self.code.mkdir(parents=True)
        (self.code / "train.py").write_text(CODE)
        self.cluster = Cluster()
        self.pauses = []

    def job(self, launcher="indexed-job", **fields):
        placement = fields.pop("placement", {})
        base = {
            "dataset": "flights",
            "interval": "2013-01-03",
            "folder": ".",
            "entry": "train:main",
            "code": digest_of_texts(training_texts(self.code)),
            "seed": 7,
            "ranks": 2,
            "image": IMAGE,
            "versions": [
                JobVersion(
                    interval="2013-01-03",
                    generation="g0001",
                    path="flights/versions/2013-01-03/g0001",
                    content_digest="c" * 64,
                    manifest_sha256="d" * 64,
                )
            ],
        }
        place = JobPlacement(launcher=launcher, connection="kubernetes_default", **placement)
        return JobSpec.named(**{**base, **fields}, placement=place)

    def home(self, job):
        home = self.root / "flights" / "training" / job.interval / job.name
        home.mkdir(parents=True, exist_ok=True)
        return home

    def record(self, job):
        return JobRecord(self.home(job))

    def launcher(self, kind="indexed-job", **settings):
        found = ClusterSettings.model_validate({**SETTINGS, **settings})
        launcher = KubernetesLauncher(
            kind, "kubernetes_default", found, JobRoots(self.root, self.code), self.cluster
        )
        return replace(launcher, pause=self.pauses.append)

    def start(self, job):
        record = self.record(job)
        record.claim(job, None)
        return self.launcher(job.placement.launcher).start(job, record.home)

    def leave_result(self, job, text="weights"):
        home = self.home(job)
        (home / "output").mkdir(exist_ok=True)
        (home / "output" / "model.npz").write_text(text)
        from trainfeed.training.jobs import JobResult

        JobResult.of_output(job.name, job.identity, {"auc": 0.7}, home / "output").write(home)


def plain(value):
    """A value as JSON has it, to compare with golden files."""
    return canonical_json.loads(canonical_json.dumps(value))
