"""A file in the place of a folder of tags, leases, plans or trainings is no empty folder."""

import shutil
from datetime import UTC, datetime

import pytest

from tests.unit.versions.tags.conftest import ASKED, DAYS, clicks
from tests.unit.versions.tags.test_tags import give
from trainfeed.errors import FormatError
from trainfeed.upkeep.retention import uses_of
from trainfeed.uploads import ReceiptBook
from trainfeed.versions.history import Action, DamagedAction, actions, record_action
from trainfeed.versions.lease import hold_versions, leases
from trainfeed.versions.tag_files import require_tag, tag_names, tags_naming

__all__ = ["clicks"]

NOW = datetime.now(UTC)


def lose(place, kind):
    """Put something else in the place of a folder."""
    shutil.rmtree(place)
    if kind == "file":
        place.write_bytes(b"")
    else:
        place.symlink_to("nowhere")


@pytest.fixture
def tagged(clicks):
    clicks.publish(*DAYS[:5])
    give(clicks, ASKED)
    return clicks.folder


@pytest.mark.parametrize("kind", ["file", "broken link"])
@pytest.mark.parametrize("what", ["tags", "tag", "leases"])
def test_retention_does_not_take_a_lost_folder_for_an_empty_one(tagged, what, kind):
    with hold_versions(tagged, [(DAYS[0], 1)], "a test"):
        place = {"tags": tagged.tags, "tag": tagged.tag("prod"), "leases": tagged.leases}[what]
        lose(place, kind)
        with pytest.raises(FormatError, match=f"expected a folder.*{place}$"):
            uses_of(tagged, NOW)


def test_a_training_that_is_no_folder_any_more_keeps_what_it_may_read(tagged):
    place = tagged.training_marks.parent / DAYS[2]
    place.mkdir(parents=True)
    lose(place, "file")
    uses = uses_of(tagged, NOW)
    assert "cannot be read" in (uses.why(DAYS[1], 7) or "")


def test_plans_that_are_no_folder_are_an_error(tagged):
    tagged.plans(DAYS[0]).mkdir(parents=True)
    assert tagged.plan_ids(DAYS[0]) == []
    lose(tagged.plans(DAYS[0]), "file")
    with pytest.raises(FormatError, match="expected a folder"):
        tagged.plan_ids(DAYS[0])
    tagged.plans(DAYS[0]).unlink()
    lose(tagged.plans(DAYS[0]).parent, "file")
    with pytest.raises(FormatError, match="expected a folder"):
        tagged.planned_intervals()


def test_a_lost_tag_is_damage_and_not_unknown(tagged):
    lose(tagged.tag("prod"), "file")
    with pytest.raises(FormatError, match="expected a folder"):
        require_tag(tagged, "prod")
    (problem,) = tags_naming(tagged, DAYS[0], 1).problems
    assert (problem.tag, problem.is_damage) == ("prod", True)
    assert tag_names(tagged) == ["prod"]


def test_a_lost_month_of_the_history_is_named_and_hides_no_other(tagged):
    early = Action.now("tag", "clicks@x", why="a test")
    record_action(tagged, early)
    month = tagged.history / "202001"
    month.write_bytes(b"")
    damaged, *others = actions(tagged)
    assert isinstance(damaged, DamagedAction)
    assert damaged.path == month
    assert early in others
    lose(tagged.history, "file")
    with pytest.raises(FormatError, match="expected a folder"):
        list(actions(tagged))


def test_receipts_that_are_no_folder_are_an_error(tagged):
    tagged.receipts.mkdir()
    assert ReceiptBook(tagged).receipts() == []
    lose(tagged.receipts, "file")
    with pytest.raises(FormatError, match="expected a folder"):
        ReceiptBook(tagged).receipts()


def test_an_untouched_data_set_has_none_of_these_folders(clicks):
    folder = clicks.folder
    assert (tag_names(folder), leases(folder), list(actions(folder))) == ([], [], [])
    assert folder.planned_intervals() == folder.plan_ids(DAYS[0]) == []
    assert uses_of(folder, NOW).why(DAYS[0], 1) is None
