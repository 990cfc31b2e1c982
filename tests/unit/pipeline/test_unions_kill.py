"""SIGKILL while a topic and two folders are built as one interval, then a retry: equal bytes."""

import json
from dataclasses import replace

import pytest

from tests.support import warm
from tests.unit.pipeline.clicks import batch, day
from tests.unit.pipeline.test_kill import variables

DAY = "2024-03-01"
ONE = "  kafka: {connection: kafka_default, topic: clicks, settle: 0s}"
UNION = """  union:
    live: {kafka: {connection: kafka_default, topic: clicks, settle: 0s, late: separate}}
    old: {logs: {path: "/old/{start:%Y-%m-%d}", land: true}}
    shop: {logs: {path: "/shop/{start:%Y-%m-%d}"}}"""
# Tasks of a member each, so that kills hit one while others have ended.
POINTS = [
    "plan.after_save",
    "ingest.start",
    "ingest.after_batch",
    "ingest.before_rename",
    "ingest.after_rename",
    "preprocess.after_range",
    "preprocess.before_spill",
    "convert.after_shard",
    "check.before_rename",
    "publish.before_rename",
]


@pytest.fixture
def project(project):
    project.record({0: [batch(day(0, 40) + day(1, 5))]})
    for number, store in enumerate(("old", "shop")):
        folder = project.path / "store" / store / DAY
        folder.mkdir(parents=True)
        lines = [json.dumps({"value": 1000 * (number + 1) + key}) for key in range(30)]
        (folder / "part-0").write_text("\n".join(lines) + "\nnot json\n")
        (folder / "_SUCCESS").touch()
    project.edit(ONE, UNION)
    env = replace(project.env, logs={"hdfs_default": str(project.path / "store")})
    return replace(project, env=env)


@pytest.mark.parametrize("point", POINTS)
def test_a_union_that_was_killed_and_retried_has_equal_bytes(project, point):
    logs = {"TRAINFEED_LOGS": project.env.logs["hdfs_default"]}
    build = ("build", "clicks", "--interval", DAY)
    killed = warm.command(*build, env=variables(project, point) | logs)
    assert killed.returncode == -9, killed.stderr
    retried = warm.command(*build, env=variables(project) | logs)
    assert retried.returncode == 0, retried.stderr
    undisturbed = project.elsewhere("undisturbed")
    undisturbed.build()
    assert project.version().manifest == undisturbed.version().manifest
    assert list(project.version().problems()) == []
    read = {
        source: account["read"]["records"]
        for source, account in project.version().manifest.ledger.items()
    }
    assert read == {
        "live/kafka:clicks/0": 40,
        "old/logs:2024-03-01/part-0": 31,
        "shop/logs:2024-03-01/part-0": 31,
    }
