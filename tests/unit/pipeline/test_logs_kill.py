"""SIGKILL while logs are built, then a retry: equal bytes. Promises P1 and P5."""

import pytest

from tests.support.warm import command
from tests.unit.pipeline.log_project import DAY, make_log_project
from trainfeed.core import faults

# What reads logs; everything behind is the same as for topics.
POINTS = [
    ("false", "ingest.start"),
    ("false", "preprocess.after_range"),
    ("true", "ingest.before_rename"),
    ("true", "ingest.after_rename"),
]


def killed_at(project, fault):
    variables = {
        "TRAINFEED_ROOT": project.env.root,
        "TRAINFEED_LANDING": project.env.landing,
        "TRAINFEED_WORK": project.env.work,
        "TRAINFEED_LOGS": project.env.logs["hdfs_default"],
        "TRAINFEED_DATASETS": str(project.env.datasets),
        faults.VARIABLE: f"{fault}:kill",
    }
    return command("build", "clicks", "--interval", DAY, env=variables)


@pytest.mark.parametrize(("land", "point"), POINTS)
def test_a_build_of_logs_that_was_killed_and_retried_has_equal_bytes(tmp_path, land, point):
    project = make_log_project(tmp_path)
    project.edit("split_bytes: 64MiB", f"split_bytes: 500B, land: {land}")
    killed = killed_at(project, point)
    assert killed.returncode != 0, killed.stdout
    assert not project.folder.interval(DAY).exists()
    project.build()
    undisturbed = project.elsewhere("undisturbed")
    undisturbed.build()
    assert project.version().manifest == undisturbed.version().manifest
    assert list(project.version().problems()) == []
