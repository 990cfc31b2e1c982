"""One build of the benchmark's data set with the engine spark, and what its application took.

``python -m benchmarks.spark.ours FOLDER/x10 batch|record OUT [MASTER]`` builds into OUT, a new
folder. The program is ``spark-submit`` of `.venv-spark`.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

from benchmarks.pipeline.run import ROOT
from trainfeed.core.config import Environment, KafkaSettings
from trainfeed.pipeline import Build, PlanReport, StageReport
from trainfeed.pipeline.check import check
from trainfeed.pipeline.ingest import ingest
from trainfeed.pipeline.plan import plan
from trainfeed.pipeline.publish import publish
from trainfeed.pipeline.spark.application import SparkApplication
from trainfeed.pipeline.spark.cluster import SparkCluster
from trainfeed.specification import load_spec
from trainfeed.versions import init_root


def main(place: Path, form: str, out: Path, master: str = "local[2]") -> None:
    """Build once, and print what came of it."""
    build, planned = planned_build(place, form, out)
    cluster = SparkCluster(
        master=master,
        submit=str(ROOT / ".venv-spark" / "bin" / "spark-submit"),
        # The memory of the driver is that of the peer, which sorts there, too.
        conf={
            "spark.driver.memory": "4g",
            "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.executor.cores": "1",
        },
    )
    seconds: dict[str, float] = {}
    reports: dict[str, StageReport] = {}
    for name, run in (
        ("ingest", lambda: [ingest(build, unit) for unit in range(planned.tasks["ingest"])][-1]),
        ("spark", lambda: SparkApplication(build, cluster).run()),
        ("check", lambda: check(build)),
        ("publish", lambda: publish(build)),
    ):
        started = time.perf_counter()
        reports[name] = run()
        seconds[name] = round(time.perf_counter() - started, 2)
    print(json.dumps(_result(reports, seconds)))


def planned_build(place: Path, form: str, out: Path) -> tuple[Build, PlanReport]:
    """Plan the data set of ``place`` in ``form`` into ``out``, a new folder."""
    init_root(out / "root")
    env = Environment(
        root=str(out / "root"),
        landing=str(out / "landing"),
        work=str(out / "work"),
        kafka={"kafka_default": KafkaSettings(recorded=str(place / "recorded"))},
        datasets=place / "datasets" / form,
    )
    spec = load_spec(env.datasets / "flights")
    planned = plan(spec, spec.schedule_model().interval_named("2013-01-01"), env)
    assert isinstance(planned, PlanReport)  # noqa: S101 - a new root has nothing to skip
    return Build(spec, env, planned.ref), planned


def _result(reports: dict[str, StageReport], seconds: dict[str, float]) -> dict[str, Any]:
    spark = reports["spark"].to_json()
    return {
        "part_s": seconds["spark"],
        "warm_s": spark["build_s"],
        "stages": seconds,
        "content": reports["publish"].to_json()["content_digest"][:12],
        "application": spark,
    }


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], Path(sys.argv[3]), *sys.argv[4:])
