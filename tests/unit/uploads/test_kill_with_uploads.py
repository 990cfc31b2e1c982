"""SIGKILL at every point of a build with uploads, then a retry: equal bytes and equal counts."""

import pytest

from tests.unit.pipeline.test_kill import LABEL_POINTS
from tests.unit.pipeline.test_kill import warm_command as command
from tests.unit.uploads.labelled import DAY, Labelled, csv_of

# The points of the shared stages are killed at in tests/unit/pipeline/test_kill.py.
POINTS = [
    "uploads.after_receipt",
    *LABEL_POINTS,
    "preprocess.before_spill",
    "check.before_rename",
]


@pytest.mark.parametrize("point", POINTS)
def test_a_build_with_uploads_that_was_killed_and_retried_has_equal_bytes(labelled, point):
    files = {
        "a.csv": csv_of([(n, 0, None) for n in range(0, 80, 2)]),
        "b.csv": csv_of([(2, 1, "")]),
    }
    for name, data in files.items():
        labelled.put(name, data)
    killed = command(labelled, point)
    assert killed.returncode == -9, killed.stderr
    retried = command(labelled)
    assert retried.returncode == 0, retried.stderr
    undisturbed = labelled.elsewhere("undisturbed")
    undisturbed = Labelled(undisturbed.path, undisturbed.env)
    for name, data in files.items():
        undisturbed.put(name, data)
    undisturbed.build()
    assert labelled.version().manifest == undisturbed.version().manifest
    assert [receipt.name for receipt in labelled.book.receipts()] == [
        f"{DAY}/a.csv",
        f"{DAY}/b.csv",
    ]
