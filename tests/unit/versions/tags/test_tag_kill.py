"""A kill at every point of a change leaves the old tag or the new one, and a repetition ends it."""

import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.unit.fault_points import points_in
from tests.unit.processes import LIMIT_S
from tests.unit.versions.tags.conftest import ASKED, DAYS
from tests.unit.versions.tags.test_tags import decided, give
from trainfeed.core import faults
from trainfeed.core.canonical_json import seal
from trainfeed.errors import ConflictError, FormatError
from trainfeed.versions.history import actions
from trainfeed.versions.tag import apply_change, propose_tag, untag
from trainfeed.versions.tag_files import require_tag, tag_history

ROOT = Path(__file__).parents[4]
POINTS = ("history.after_action", "tags.before_change", "tags.after_change", "tags.after_look")
CODE = """
import sys
from pathlib import Path
from trainfeed.versions import DatasetFolder
from trainfeed.core.accounts import Decision
from trainfeed.versions.tag import apply_change, propose_tag

folder = DatasetFolder(Path(sys.argv[1]), "clicks")
decision = Decision.now("released", request="run 1")
apply_change(folder, propose_tag(folder, sys.argv[2], "prod", decision))
"""


def tag(clicks, fault=None):
    return subprocess.run(
        [sys.executable, "-c", CODE, str(clicks.folder.root), ASKED],
        env={
            "PYTHONPATH": str(ROOT / "include"),
            **({faults.VARIABLE: f"{fault}:kill"} if fault else {}),
        },
        capture_output=True,
        text=True,
        check=False,
        timeout=LIMIT_S,
    )


@pytest.mark.parametrize("point", POINTS)
def test_a_killed_change_is_whole_or_absent_and_its_repetition_makes_it_once(clicks, point):
    clicks.publish(*DAYS[:5])
    give(clicks)
    before = require_tag(clicks.folder, "prod")
    clicks.publish(*DAYS[:5], generation=2)
    assert tag(clicks, point).returncode == -signal.SIGKILL
    found = require_tag(clicks.folder, "prod")
    assert found == before or set(found.generations.values()) == {2}
    done = tag(clicks)
    assert (done.returncode, done.stderr) == (0, "")
    assert set(require_tag(clicks.folder, "prod").generations.values()) == {2}
    assert [each.number for each in tag_history(clicks.folder, "prod")] == [1, 2]
    assert {each.action for each in actions(clicks.folder)} == {"tag"}
    (clicks.folder.tag("prod") / "0002.json").unlink()
    with pytest.raises(FormatError, match="it is gone"):
        require_tag(clicks.folder, "prod")


def test_every_point_is_killed_at():
    named = points_in("versions/tag.py", "versions/tag_files.py")
    assert named == set(POINTS) - {"history.after_action"}


def test_of_many_changes_at_once_one_is_made_and_all_others_are_told(clicks):
    clicks.publish(*DAYS[:5])
    proposals = [
        propose_tag(clicks.folder, ASKED, "prod", decided(f"reason {n}")) for n in range(8)
    ]

    def change(proposal):
        try:
            return apply_change(clicks.folder, proposal)[0].decision.why
        except ConflictError as error:
            return error

    with ThreadPoolExecutor(8) as pool:
        results = list(pool.map(change, proposals))
    (winner,) = [each for each in results if isinstance(each, str)]
    assert all(winner in str(each) for each in results if not isinstance(each, str))
    assert [each.decision.why for each in tag_history(clicks.folder, "prod")] == [winner]


def lose_the_confirmation(clicks):
    """As a kill between a change and its confirmation leaves them."""
    last = clicks.folder.tag("prod") / "LAST.json"
    last.write_bytes(seal(b'{"number":1'))


def test_a_removal_that_is_asked_for_again_is_confirmed_so_its_loss_is_noticed(clicks):
    clicks.publish(*DAYS[:5])
    give(clicks)
    untag(clicks.folder, "prod", decided("of no use"))
    lose_the_confirmation(clicks)
    assert untag(clicks.folder, "prod", decided("of no use"))[1] is False
    (clicks.folder.tag("prod") / "0002.json").unlink()
    with pytest.raises(FormatError, match="change 2 of tag"):
        require_tag(clicks.folder, "prod")
