"""SIGKILL at every point of every stage, then a retry: equal bytes, and never half a version.

Cases OR-02, CE-17 (without power loss) and P1, P5 of the promises.
"""

import re
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from tests.support import warm
from tests.unit.fault_points import PACKAGE, modules_of, points_in, source_of
from tests.unit.processes import LIMIT_S
from trainfeed.core import faults
from trainfeed.errors import NotFoundError
from trainfeed.versions import Version

ROOT = Path(__file__).parents[3]
POINTS = [
    "plan.after_save",
    "ingest.start",
    "ingest.after_batch",
    "ingest.before_rename",
    "ingest.after_rename",
    "preprocess.start",
    "preprocess.after_range",
    "preprocess.after_runs",
    "preprocess.before_spill",
    "preprocess.after_spill",
    "convert.start",
    "convert.after_block",
    "convert.before_sync",
    "staging.before_rename",
    "convert.after_shard",
    "check.start",
    "check.before_rename",
    "publish.start",
    "publish.after_manifest",
    "publish.after_verify",
    "publish.before_rename",
    "publish.after_rename",
]
# Only there when samples exceed the memory: killed at in test_external_sort.py.
EXTERNAL_POINTS = ["preprocess.after_merged_block"]
# Killed at in upkeep/test_housekeeping.py and tests/unit/upkeep/retention/test_superseded.py.
PRUNE_POINTS = ["discard.after_rename"]
# Only there for data sets with uploads: killed at in tests/unit/uploads/test_kill_with_uploads.py.
LABEL_POINTS = ["labels.before_rename", "labels.after_rename"]
# Only there when a gate fails: killed at in waivers/test_kill_with_waivers.py.
WAIVER_POINTS = [
    "check.after_refused",
    "waiver.before_write",
    "waiver.after_write",
    "waiver.before_apply",
    "waiver.after_apply",
]
# Only with lookups: killed at in tests/unit/look/difference/test_kept_lookups.py.
LOOKUP_POINTS = ["plan.before_kept_lookup", "plan.after_kept_lookup"]
# Only for many files: killed at in plans/test_listed_plans.py and in
# tests/unit/versions/version/test_listed_sources.py.
LIST_POINTS = ["plan.after_list", "publish.after_list"]
# Only with a schema registry: killed at in tests/unit/pipeline/inputs/test_schemas.py.
SCHEMA_POINTS = ["ingest.after_schema"]
# Of no stage: killed at in tests/unit/pipeline/quarantine/test_access.py.
QUARANTINE_POINTS = ["quarantine.before_access", "quarantine.after_access"]
# In executors and drivers of Spark: killed at in tests/integration/spark. The start is the code
# of every stage.
SPARK_POINTS = [
    "spark.start",
    "spark.before_function",
    "spark.after_function",
    "spark.before_rows",
    "spark.after_group",
    "spark.before_shard",
    "spark.before_result",
]


BUILD = ("build", "clicks", "--interval", "2024-03-01")


def variables(project, fault=None):
    return {
        "PYTHONPATH": str(ROOT / "include"),
        "TRAINFEED_ROOT": project.env.root,
        "TRAINFEED_LANDING": project.env.landing,
        "TRAINFEED_WORK": project.env.work,
        "TRAINFEED_KAFKA": f"recorded:{project.path / 'recorded'}",
        "TRAINFEED_DATASETS": str(project.env.datasets),
        **({faults.VARIABLE: f"{fault}:kill"} if fault else {}),
    }


def warm_command(project, fault=None):
    """Build as a fork of the warm interpreter."""
    return warm.command(*BUILD, env=variables(project, fault))


def command(project, fault=None):
    """Build in a new interpreter."""
    return subprocess.run(
        [sys.executable, "-m", "trainfeed", *BUILD],
        env=variables(project, fault),
        capture_output=True,
        text=True,
        check=False,
        timeout=LIMIT_S,
    )


class Observer:
    """Looks at the versions folder all the time and verifies in full whatever it sees there."""

    def __init__(self, folder):
        self._folder = folder
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch)
        self.seen = set()
        self.violations = []

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *error):
        self._stop.set()
        self._thread.join()

    def _watch(self):
        while not self._stop.wait(0.01):
            for path in self._folder.glob("g[0-9]*"):
                try:
                    version = Version.open(path)
                    self.violations += version.problems()
                    self.seen.add(version.manifest_sha256)
                except NotFoundError as error:
                    self.violations.append(error)


def kill_and_retry(command, project, point):
    """Build twice, the first time with a kill, and compare with an undisturbed build."""
    with Observer(project.folder.interval("2024-03-01")) as observer:
        killed = command(project, point)
        assert killed.returncode == -9, killed.stderr
        retried = command(project)
        assert retried.returncode == 0, retried.stderr
    undisturbed = project.elsewhere("undisturbed")
    undisturbed.build()
    assert observer.violations == []
    assert observer.seen <= {project.version().manifest_sha256}
    assert project.version().manifest == undisturbed.version().manifest
    assert not list(project.folder.staging.glob("*-g0001"))


@pytest.mark.parametrize("point", POINTS)
def test_a_build_that_was_killed_and_retried_has_equal_bytes(project, point):
    kill_and_retry(warm_command, project, point)


@pytest.mark.parametrize("point", ["preprocess.after_range", "publish.before_rename"])
def test_so_it_has_in_new_interpreters(project, point):
    kill_and_retry(command, project, point)


@pytest.mark.parametrize("point", ["convert.after_block", "convert.before_sync"])
def test_shards_in_tfrecord_are_written_anew_too(project, point):
    project.edit("codec: zstd", "format: tfrecord")
    kill_and_retry(warm_command, project, point)


def test_every_point_of_the_stages_is_killed_at():
    named = points_in("pipeline", "versions/publication.py")
    source = source_of(modules_of(PACKAGE / "pipeline"))
    started = {f"{stage}.start" for stage in re.findall(r'run_stage\(\s*"(\w+)"', source)}
    elsewhere = {
        *EXTERNAL_POINTS,
        *PRUNE_POINTS,
        *LABEL_POINTS,
        *WAIVER_POINTS,
        *LOOKUP_POINTS,
        *LIST_POINTS,
        *SCHEMA_POINTS,
        *QUARANTINE_POINTS,
        *SPARK_POINTS,
    }
    assert named | started == {*POINTS, *elsewhere}
