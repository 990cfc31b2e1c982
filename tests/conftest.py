"""Marks tests by folder and decides what to do when a real service is missing."""

from __future__ import annotations

import gc
import os
import signal
from collections.abc import Generator, Mapping
from pathlib import Path

import pytest

from tests.slow_cases import longest_first, slow_cases

SERVICES = {
    "kafka": "TEST_KAFKA_BOOTSTRAP_SERVERS",
    "registry": "TEST_REGISTRY_URL",
    "hdfs": "TEST_HDFS_URI",
    "cephfs": "TEST_CEPHFS_PATH",
    "s3": "TEST_S3_URI",
    "kubernetes": "TEST_KUBERNETES_HOME",
    "spark": "TEST_SPARK_MASTER",
    "recordio_original": "TEST_RECORDIO_ORIGINAL",
}
# Folders of integration tests that need several services; others have the name of theirs.
NEEDS = {
    "registry": ("kafka", "registry"),
    "retention": ("hdfs", "cephfs"),
    "spark_stores": ("spark", "hdfs", "cephfs"),
}
ROOT = Path(__file__).parent
# Files that `make ci` runs and `make test` leaves out; so are cases with the marker itself.
# docs/authors/suite.md says for each what of it `make test` has.
OF_CI = {
    "docs/test_site.py",
    "e2e/test_convert_dag.py",
    "e2e/test_corrections.py",
    "e2e/test_four_ways.py",
    "e2e/test_look_first.py",
    "e2e/test_paused_training.py",
    "e2e/test_topology.py",
    "e2e/test_triggers.py",
    "integration/cephfs/test_copies.py",
    "integration/cephfs/test_killed_corrections.py",
    "integration/cephfs/test_ranks.py",
    "integration/cephfs/test_service_cephfs.py",
    "integration/hdfs/test_logs_safe_mode.py",
    "integration/hdfs/test_service_hdfs.py",
    "integration/kafka/test_model_logs.py",
    "integration/kafka/test_service_kafka.py",
    "integration/registry/test_service_registry.py",
    "integration/retention/test_a_year.py",
    "integration/s3/test_backfill_into_a_bucket.py",
    "integration/s3/test_commands_on_a_bucket.py",
    "integration/s3/test_radosgw.py",
    "integration/s3/test_service_s3.py",
    "unit/upkeep/retention/test_simulated_nights.py",
}


# Least free memory with which temporary files of tests are kept there, and not on a disk.
_ROOM_BYTES = 4 << 30


def _keep_files_in_memory() -> None:
    """Choose where ``tmp_path`` is: half of a test on a disk is fsync and the removal of files."""
    memory = Path("/dev/shm")
    if not os.access(memory, os.W_OK | os.X_OK):
        return
    space = os.statvfs(memory)
    facts = dict(line.split(":") for line in Path("/proc/meminfo").read_text().splitlines())
    free = 1024 * int(facts["MemAvailable"].removesuffix("kB"))
    if min(space.f_bavail * space.f_frsize, free) >= _ROOM_BYTES:
        os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(memory))


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--require",
        default="",
        metavar="SERVICE,…",
        help="fail, instead of skip, tests whose service is missing",
    )


def _required(config: pytest.Config) -> set[str]:
    return set(filter(None, config.getoption("--require").split(",")))


def pytest_configure(config: pytest.Config) -> None:
    # A shell that starts tests in the background has them, and what they start, ignore these.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    _keep_files_in_memory()
    # A misspelt name would require nothing, and the tests would be skipped without a word.
    if unknown := _required(config) - SERVICES.keys():
        raise pytest.UsageError(f"--require: {sorted(unknown)} not in {sorted(SERVICES)}")


@pytest.hookimpl(wrapper=True)
def pytest_collection_modifyitems(
    config: pytest.Config, items: list[pytest.Item]
) -> Generator[None]:
    slow = slow_cases()
    _mark(items, slow)
    yield
    if hasattr(config, "workerinput"):
        # One of several processes: none is left with a long file for which the others wait.
        order = longest_first([item.nodeid for item in items], slow)
        items.sort(key=lambda item: order[item.nodeid.partition("::")[0]])


def _mark(items: list[pytest.Item], slow: Mapping[str, float]) -> None:
    for item in items:
        folder, *rest = item.path.relative_to(ROOT).parts
        if item.path.relative_to(ROOT).as_posix() in OF_CI or item.nodeid in slow:
            item.add_marker("ci")
        if folder in {"unit", "model", "dags"}:
            item.add_marker("unit")
        elif folder == "integration":
            for service in NEEDS.get(rest[0], rest[:1]):
                item.add_marker(pytest.mark.integration(service))
        elif folder == "e2e":
            item.add_marker("e2e")


def pytest_collection_finish() -> None:
    # Many tests collect garbage to see what is left; thousands of tests need not be looked through.
    gc.collect()
    gc.freeze()


def pytest_runtest_setup(item: pytest.Item) -> None:
    for marker in item.iter_markers("integration"):
        (service,) = marker.args
        if SERVICES[service] not in os.environ:
            message = f"{service} is not configured: set {SERVICES[service]}"
            if service in _required(item.config):
                pytest.fail(message)
            pytest.skip(message)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """With CI=true nothing is skipped, for whatever reason: what cannot run has failed."""
    report = yield
    if report.skipped and os.environ.get("CI") == "true":
        report.outcome = "failed"
        report.longrepr = f"skipped, which CI=true does not allow: {report.longreprtext}"
    return report
