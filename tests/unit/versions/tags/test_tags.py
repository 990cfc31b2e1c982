"""Tags: which versions they name, how they move, and what stops them."""

import hashlib
import stat
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from tests.unit.versions.tags.conftest import ASKED, DAYS
from trainfeed.core.accounts import Decision
from trainfeed.errors import (
    ChecksumError,
    ConfigError,
    ConflictError,
    NotFoundError,
    WindowError,
    WindowIncompleteError,
)
from trainfeed.versions import Skip, write_skip
from trainfeed.versions.history import actions
from trainfeed.versions.tag import TaggedData, apply_change, cover_tag, move_tag, propose_tag, untag
from trainfeed.versions.tag_files import (
    TaggedVersion,
    current_tag,
    require_tag,
    tag_history,
    tag_names,
    tagged_versions,
    tags_naming,
    write_change,
)


def decided(why="released", **more):
    return Decision.now(why, **more)


def give(clicks, asked=ASKED, tag="prod", decision=None, **options):
    proposal = propose_tag(clicks.folder, asked, tag, decision or decided(), **options)
    return apply_change(clicks.folder, proposal)


def opened(clicks, name="prod", asked=None):
    found = TaggedData(clicks.folder.root, f"clicks@{name}").cover(asked)
    return [version.name for version in found.versions]


def test_a_tag_keeps_its_versions_when_newer_ones_are_published(clicks):
    clicks.publish(*DAYS[:5])
    tag, is_new = give(clicks)
    assert is_new
    assert tag == require_tag(clicks.folder, "prod")
    clicks.publish(*DAYS[:3], generation=2)
    assert opened(clicks) == [f"{day}/g0001" for day in DAYS[:5]]
    moved, _ = give(clicks)
    assert moved.number == 2
    assert opened(clicks) == [
        *[f"{day}/g0002" for day in DAYS[:3]],
        *[f"{day}/g0001" for day in DAYS[3:5]],
    ]
    assert opened(clicks, "prod#1") == [f"{day}/g0001" for day in DAYS[:5]]


def test_a_reader_that_resolved_a_tag_does_not_follow_it(clicks):
    clicks.publish(*DAYS[:5])
    give(clicks)
    data = TaggedData(clicks.folder.root, "clicks@prod")
    clicks.publish(DAYS[0], generation=2)
    give(clicks)
    assert data.cover(DAYS[0]).versions[0].name == f"{DAYS[0]}/g0001"


def test_a_part_of_a_tag_is_read_and_nothing_outside_of_it(clicks):
    clicks.publish(*DAYS[:6])
    give(clicks)
    assert opened(clicks, asked=f"{DAYS[1]}/{DAYS[2]}") == [f"{day}/g0001" for day in DAYS[1:3]]
    for outside in (DAYS[5], f"{DAYS[4]}/{DAYS[5]}", "2026-01", "2025-12"):
        with pytest.raises(NotFoundError, match="is of 2026-01-01/2026-01-05 and does not name"):
            opened(clicks, asked=outside)


def test_a_hole_is_left_out_only_where_a_person_allows_it(clicks):
    clicks.publish(*DAYS[:2], *DAYS[3:5])
    with pytest.raises(WindowIncompleteError, match="clicks@prod was not changed") as caught:
        give(clicks)
    assert caught.value.missing == (DAYS[2],)
    assert tag_names(clicks.folder) == []
    tag, _ = give(clicks, allow_missing=True, decision=decided("the source was away", who="ada"))
    assert tag.missing == (DAYS[2],)
    found = cover_tag(clicks.folder, tag)
    found.require("fail")
    assert "ada" in found.skipped[0].why
    assert "the source was away" in found.skipped[0].why


def test_a_skipped_interval_is_in_the_tag_with_its_reason(clicks):
    clicks.publish(*DAYS[:2], *DAYS[3:5])
    write_skip(clicks.folder, Skip(DAYS[2], "holiday", "2026-03-08T00:00:00Z", None))
    tag, _ = give(clicks)
    assert tag.skipped[0].why == "holiday"
    assert cover_tag(clicks.folder, tag, DAYS[2]).skipped == tag.skipped


@pytest.mark.parametrize("hidden", ["withdraw", "remove"])
def test_a_version_that_readers_do_not_get_is_not_tagged_and_stops_its_tag(clicks, hidden):
    clicks.publish(*DAYS[:5])
    give(clicks)
    getattr(clicks, hidden)(DAYS[1])
    state = {"withdraw": "was withdrawn by ada", "remove": "was removed by retention"}[hidden]
    with pytest.raises(
        ConflictError, match=f"names {DAYS[1]}/g0001: .* {state}.*; nothing was read"
    ):
        opened(clicks)
    assert opened(clicks, asked=DAYS[0]) == [f"{DAYS[0]}/g0001"]
    with pytest.raises(ConflictError, match=state):
        give(clicks, f"{DAYS[1]}/g0001", "one")
    with pytest.raises(ConflictError, match=state):
        give(clicks, "@prod", "copy")
    with pytest.raises(WindowIncompleteError):
        give(clicks)


def test_another_version_in_the_place_of_a_tagged_one_is_not_read(clicks):
    clicks.publish(DAYS[0])
    give(clicks, DAYS[0])
    place = clicks.folder.version(DAYS[0], 1)
    for file in place.iterdir():
        data = file.read_bytes()
        file.unlink()
        file.write_bytes(data)
    assert opened(clicks)
    for file in place.iterdir():
        file.unlink()
    place.rmdir()
    clicks.publish(DAYS[0], generation=1)
    manifest = place / "MANIFEST.json"
    changed = manifest.read_bytes().replace(b'"plan":"p"', b'"plan":"q"')
    manifest.write_bytes(changed)
    (place / "MANIFEST.sha256").write_text(hashlib.sha256(changed).hexdigest() + "\n")
    with pytest.raises(ChecksumError, match="expected the manifest that was tagged prod#1"):
        opened(clicks)


def test_a_tag_takes_over_another_tag_and_returns_to_an_earlier_change(clicks):
    clicks.publish(*DAYS[:5])
    give(clicks, tag="next")
    give(clicks, "@next", "prod")
    clicks.publish(DAYS[0], generation=2)
    give(clicks, tag="prod")
    back, _ = give(clicks, "@prod#1", "prod", decided("the new ones are wrong"))
    assert back.number == 3
    assert back.generations == require_tag(clicks.folder, "prod", 1).generations
    assert current_tag(clicks.folder, "next").generations == back.generations


def test_what_changes_nothing_is_not_written(clicks):
    clicks.publish(*DAYS[:5])
    first, _ = give(clicks)
    second, is_new = give(clicks, decision=decided("again"))
    assert (second, is_new) == (first, False)
    assert len(tag_history(clicks.folder, "prod")) == 1


def test_a_repeated_request_changes_nothing_even_after_other_changes(clicks):
    clicks.publish(*DAYS[:5])
    asked = decided(request="manual__1")
    first, _ = give(clicks, decision=asked)
    clicks.publish(DAYS[0], generation=2)
    give(clicks)
    assert give(clicks, decision=asked) == (first, False)


def test_of_two_changes_at_once_one_is_made_and_the_other_says_whose(clicks):
    clicks.publish(*DAYS[:5])
    ours = propose_tag(clicks.folder, ASKED, "prod", decided())
    give(clicks, decision=decided("mine was first", who="ada"))
    with pytest.raises(ConflictError, match=r"meanwhile by ada \(.*: mine was first"):
        apply_change(clicks.folder, ours)
    assert len(tag_history(clicks.folder, "prod")) == 1


def test_a_version_that_is_withdrawn_at_the_same_time_is_seen(clicks):
    clicks.publish(*DAYS[:5])
    proposal = propose_tag(clicks.folder, ASKED, "prod", decided())
    clicks.withdraw(DAYS[2])
    with pytest.raises(ConflictError, match="was written and names 2026-01-03/g0001, and"):
        apply_change(clicks.folder, proposal)
    assert tags_naming(clicks.folder, DAYS[2], 1).names == ("prod",)


def test_a_removed_tag_is_no_tag_keeps_its_history_and_can_be_given_again(clicks):
    clicks.publish(*DAYS[:5])
    give(clicks)
    gone, is_new = untag(clicks.folder, "prod", decided("retired", who="ada"))
    assert is_new
    assert untag(clicks.folder, "prod", decided()) == (gone, False)
    with pytest.raises(NotFoundError, match=r"was removed by ada \(.*: retired"):
        opened(clicks)
    assert tagged_versions(clicks.folder) == frozenset()
    assert opened(clicks, "prod#1")
    again, is_new = give(clicks)
    assert is_new
    assert [each.kind for each in tag_history(clicks.folder, "prod")] == ["tag", "untag", "tag"]
    assert again.number == 3


def test_single_versions_of_a_tag_are_replaced_for_a_reason(clicks):
    clicks.publish(*DAYS[:5])
    clicks.publish(DAYS[1], generation=2)
    give(clicks)
    clicks.withdraw(DAYS[1], 2)
    moved, _ = move_tag(clicks.folder, "prod", {DAYS[1]: 1, DAYS[2]: None}, decided("wrong labels"))
    assert moved.number == 2
    assert opened(clicks) == [f"{day}/g0001" for day in (DAYS[0], DAYS[1], DAYS[3], DAYS[4])]
    assert moved.missing == (DAYS[2],)
    with pytest.raises(ConflictError, match="does not name 2026-01-06"):
        move_tag(clicks.folder, "prod", {DAYS[5]: 1}, decided())
    with pytest.raises(ConflictError, match="was withdrawn by ada"):
        move_tag(clicks.folder, "prod", {DAYS[1]: 2}, decided())
    assert current_tag(clicks.folder, "prod") == moved


def test_the_versions_of_all_tags_are_known_to_retention(clicks):
    clicks.publish(*DAYS[:3])
    give(clicks, DAYS[0], "a")
    give(clicks, f"{DAYS[0]}/{DAYS[1]}", "b")
    assert tagged_versions(clicks.folder) == {(DAYS[0], 1), (DAYS[1], 1)}
    assert tags_naming(clicks.folder, DAYS[0], 1).names == ("a", "b")
    assert tags_naming(clicks.folder, DAYS[0], 2) == ((), ())


@pytest.mark.parametrize(
    "name", ["2026-01-01", "2026-01", "g0001", "v0001", "Prod", "", "a/b", ".."]
)
def test_a_tag_has_no_name_that_could_mean_a_version(clicks, name):
    clicks.publish(DAYS[0])
    with pytest.raises(ConfigError, match="expected the name of a tag"):
        give(clicks, DAYS[0], name)
    with pytest.raises(ConfigError):
        current_tag(clicks.folder, name)


def test_an_unknown_tag_is_named_with_the_nearest_and_the_namespace(clicks):
    clicks.publish(DAYS[0])
    give(clicks, DAYS[0], "prod")
    with pytest.raises(NotFoundError, match=r"did you mean 'prod'\?; tags of data were looked up"):
        opened(clicks, "prd")
    with pytest.raises(NotFoundError, match="expected change 7 of tag clicks@prod, it has 1 to 1"):
        opened(clicks, "prod#7")
    with pytest.raises(WindowError, match="or a tag of it"):
        TaggedData(clicks.folder.root, "clicks").cover(None)


def test_a_change_needs_a_reason(clicks):
    for why in ("", "  ", "x" * 4001):
        with pytest.raises(ConfigError, match="expected why of 3 to 500"):
            Decision.now(why)


def test_who_when_why_and_what_changed_are_in_the_history_of_the_data_set(clicks):
    clicks.publish(*DAYS[:5])
    before = datetime.now(UTC)
    tag, _ = give(clicks, decision=decided("released", who="ada"))
    (action,) = actions(clicks.folder)
    assert (action.action, action.target, action.why, action.who) == (
        "tag",
        "clicks@prod",
        "released",
        "ada",
    )
    assert action.details["versions"] == 5
    assert action.details["changes"][0] == {"interval": DAYS[0], "from": None, "to": "g0001"}
    assert tag.decision.at >= before.strftime("%Y-%m-%d")


def test_every_account_reads_a_tag(clicks):
    clicks.publish(DAYS[0])
    give(clicks, DAYS[0])
    path = clicks.folder.tag("prod") / "0001.json"
    assert stat.S_IMODE(path.stat().st_mode) & 0o444 == 0o444


def test_a_tag_of_a_hundred_thousand_versions_is_written_and_read(clicks):
    clicks.publish(DAYS[0])
    proposal = propose_tag(clicks.folder, DAYS[0], "prod", decided())
    (one,) = proposal.after.versions
    many = tuple(
        TaggedVersion(f"{year}-01-01T{n:04d}", 1, one.manifest_sha256, one.fingerprint)
        for year in range(2000, 2010)
        for n in range(10_000)
    )
    tag = replace(proposal.after, versions=many)
    write_change(clicks.folder, tag)
    assert require_tag(clicks.folder, "prod") == tag
