"""SIGKILL at every point of a withdrawal and a restoration, and a retry that ends it."""

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.unit.fault_points import points_in
from tests.unit.upkeep.withdrawal.conftest import ADA, DAY
from trainfeed.core import faults
from trainfeed.errors import ConflictError
from trainfeed.upkeep.withdrawal import Maker, restore, withdraw
from trainfeed.versions.history import actions
from trainfeed.versions.layout import CURRENT
from trainfeed.versions.withdraw import withdrawals

CALL = """
import sys
from pathlib import Path
from trainfeed.upkeep import withdrawal
from trainfeed.core.config import Environment
env = Environment(root=sys.argv[2], landing="unused", work="unused", kafka={}, datasets=Path())
maker = withdrawal.Maker("ada", "builder", "labels of yesterday")
getattr(withdrawal, sys.argv[1])(env, "clicks", "2024-03-01", None, maker)
"""

POINTS = {
    "withdraw": ["history.after_action", "withdrawal.after_mark", "withdrawal.after_pointer"],
    "restore": ["history.after_action", "withdrawal.after_pointer", "restoration.after_rename"],
}


def killed(project, action, point):
    variables = {**os.environ, faults.VARIABLE: f"{point}:kill"}
    done = subprocess.run(
        [sys.executable, "-c", CALL, action, project.env.root], env=variables, check=False
    )
    return done.returncode == -9


@pytest.mark.parametrize("point", POINTS["withdraw"])
def test_a_killed_withdrawal_is_before_or_after_and_a_retry_ends_it(twice, point):
    assert killed(twice, "withdraw", point)
    is_hidden = bool(withdrawals(twice.folder, DAY))
    assert twice.folder.readable_generation(DAY) == (1 if is_hidden else 2)
    assert len(list(actions(twice.folder))) == 1
    done = withdraw(twice.env, "clicks", DAY, None, ADA)
    assert (done.mark.generation, done.readers_get) == (2, 1)
    assert [mark.generation for mark in withdrawals(twice.folder, DAY)] == [2]
    assert (twice.folder.interval(DAY) / CURRENT).read_text() == "g0001\n"


@pytest.mark.parametrize("point", POINTS["restore"])
def test_a_killed_restoration_is_before_or_after_and_a_retry_ends_it(twice, point):
    withdraw(twice.env, "clicks", DAY, None, ADA)
    assert killed(twice, "restore", point)
    is_hidden = bool(withdrawals(twice.folder, DAY))
    assert twice.folder.readable_generation(DAY) == (1 if is_hidden else 2)
    assert restore(twice.env, "clicks", DAY, None, ADA).readers_get == 2
    assert twice.version().name == f"{DAY}/g0002"
    assert withdrawals(twice.folder, DAY) == []


def test_every_point_is_killed_at():
    named = points_in("upkeep/withdrawal", "versions/withdraw.py")
    assert named == {*POINTS["withdraw"], *POINTS["restore"]} - {"history.after_action"}


def test_of_many_people_at_once_one_withdraws(twice):
    def go(number):
        try:
            return withdraw(twice.env, "clicks", DAY, 2, Maker(f"p{number}", "builder", "wrong"))
        except ConflictError as error:
            return str(error)

    with ThreadPoolExecutor(6) as pool:
        results = list(pool.map(go, range(6)))
    (mark,) = withdrawals(twice.folder, DAY)
    told = [result for result in results if isinstance(result, str)]
    assert len(told) == 5
    assert all(f"withdrawn by {mark.who} (builder)" in text for text in told)
