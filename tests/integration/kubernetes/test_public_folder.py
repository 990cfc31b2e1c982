"""A training on a real cluster reads a public set from the public folder; nothing is uploaded."""

from __future__ import annotations

from tests.unit.publicsets.idx_files import NUM_TRAIN, write_mnist
from trainfeed.publicsets import build_public_set
from trainfeed.training.jobs import JobState
from trainfeed.versions import init_root

READS = """
from trainfeed.publicsets import open_public


def main(job):
    reader = open_public("mnist", split="train").reader(rank=job.rank, world_size=job.world_size)
    return {"digits": sum(1 for _ in reader())}
"""


def test_every_rank_reads_its_share_of_a_public_set(training, tmp_path):
    public = tmp_path / "public"
    init_root(public / "dataset")
    write_mnist(tmp_path / "idx")
    build_public_set("mnist", originals=tmp_path / "idx", root=public / "dataset")
    before = {path: path.stat().st_mtime_ns for path in public.rglob("*")}

    own = training(code=READS).set(public={"path": "/pfs/dc1/public", "host_path": str(public)})
    launched = own.launch()
    assert own.finished(launched).state is JobState.SUCCEEDED
    assert own.collect(launched)["metrics"] == {"digits": NUM_TRAIN // 2}
    (job,) = own.jobs()
    (container,) = job["spec"]["template"]["spec"]["containers"]
    mounts = {mount["mountPath"]: mount for mount in container["volumeMounts"]}
    assert mounts["/pfs/dc1/public"]["readOnly"] is True
    assert {path: path.stat().st_mtime_ns for path in public.rglob("*")} == before
