"""How a set of shards appears: whole, instead of the old one, whatever ends the process."""

from __future__ import annotations

import json
import os
import re
import signal
import uuid
from contextlib import suppress

import pytest

from tests.unit.conversion.conftest import FIXED, contents, fixed_samples, labels_of, names_in
from trainfeed.conversion import (
    ConvertOptions,
    ShardManifest,
    ShardName,
    convert,
    finish_publication,
    shard_name,
)
from trainfeed.core import faults
from trainfeed.core.canonical_json import seal
from trainfeed.errors import ConflictError, FormatError, NotFoundError

# Before it the old set is there, from it on the new one is decided.
BEFORE = ["convert.after_run", "convert.after_read", "convert.after_shard", "convert.before_commit"]
AFTER = [
    "convert.after_commit",
    "convert.after_move",
    "convert.before_manifest",
    "convert.before_cleanup",
]


def run(folder, count, fault=None):
    """Convert in a process of its own, which the fault kills; return its exit status."""
    process = os.fork()
    if process == 0:
        with suppress(BaseException):
            os.environ[faults.VARIABLE] = f"{fault}:kill" if fault else ""
            faults._plan.cache_clear()
            options = ConvertOptions(memory_bytes=1 << 16)
            convert(folder, fixed_samples(count), 3, "p", schema=FIXED, options=options)
            os._exit(0)
        os._exit(1)
    return os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])


def visible(folder):
    return {name: data for name, data in contents(folder).items() if not name.startswith(".")}


@pytest.fixture
def expected(tmp_path):
    convert(tmp_path / "expected", fixed_samples(40), 3, "p", schema=FIXED)
    return contents(tmp_path / "expected")


def test_a_rerun_leaves_no_stale_shard_and_touches_nothing_else(out):
    others = ["q-00000-of-00001", "p-x-00000-of-00001", "p-00000-of-0001", "notes", "p.txt"]
    for name in others:
        (out / name).write_text(name)
    convert(out, fixed_samples(50), 9, "p", schema=FIXED)
    convert(out, fixed_samples(40), 3, "p", schema=FIXED)
    names = [shard_name("p", i, 3) for i in range(3)]
    assert sorted(visible(out)) == sorted([*others, *names, "p.shards.json"])
    assert all((out / name).read_text() == name for name in others)
    # A shard that no manifest knows is stale as well: it would be read with the others.
    (out / "p-00000-of-00004").write_bytes(b"")
    convert(out, fixed_samples(40), 3, "p", schema=FIXED)
    assert not (out / "p-00000-of-00004").exists()


@pytest.mark.parametrize("point", BEFORE)
def test_a_kill_before_the_commit_leaves_the_old_set(out, expected, point):
    convert(out, fixed_samples(11), 4, "p", schema=FIXED)
    before = visible(out)
    assert run(out, 40, point) == -signal.SIGKILL
    assert visible(out) == before
    assert finish_publication(out, "p") is False
    assert ShardManifest.load(out, "p").problems(out, deep=True) == []
    convert(out, fixed_samples(40), 3, "p", schema=FIXED)
    assert visible(out) == expected
    assert names_in(out) == sorted([*expected, ".p.lock"])


@pytest.mark.parametrize("form", [lambda identity: identity.hex, str])
def test_what_a_dead_process_left_is_removed_under_the_names_of_all_versions(out, form):
    assert run(out, 40, "convert.before_commit") == -signal.SIGKILL
    (staging,) = out.glob(".p.*.tmp")
    identity = staging.name.removeprefix(".p.").removesuffix(".tmp")
    assert re.fullmatch("[0-9a-f]{32}", identity)
    for path in (staging, out / f"{staging.name}.owner"):
        path.rename(out / path.name.replace(identity, form(uuid.UUID(identity))))
    finish_publication(out, "p")
    assert not list(out.glob(".p.*.tmp*"))


@pytest.mark.parametrize("finish", [finish_publication, lambda out, _: run(out, 40)])
@pytest.mark.parametrize("point", AFTER)
def test_after_the_commit_the_new_set_is_carried_out_by_whoever_comes_next(
    out, expected, point, finish
):
    convert(out, fixed_samples(11), 4, "p", schema=FIXED)
    old = ShardManifest.load(out, "p")
    assert run(out, 40, point) == -signal.SIGKILL
    try:
        # A reader that goes by the manifest sees a whole set or none.
        manifest = ShardManifest.load(out, "p")
    except NotFoundError:
        assert point in {"convert.after_move", "convert.before_manifest"}
    else:
        assert manifest.problems(out, deep=True) == []
        assert (manifest == old) == (point == "convert.after_commit")
    finish(out, "p")
    assert visible(out) == expected
    assert names_in(out) == sorted([*expected, ".p.lock"])
    assert finish_publication(out, "p") is False


def test_what_another_tool_has_decided_is_left_to_it(out):
    commit = out / ".p.commit"
    commit.mkdir()
    (commit / "base64_rank_0").write_bytes(b"rows")
    with pytest.raises(ConflictError, match="of another kind"):
        convert(out, fixed_samples(9), 2, "p", schema=FIXED)
    with pytest.raises(ConflictError, match="of another kind"):
        finish_publication(out, "p")
    assert (commit / "base64_rank_0").read_bytes() == b"rows"


@pytest.mark.parametrize("point", [*BEFORE, "convert.after_commit"])
def test_a_new_folder_is_there_whole_or_not_at_all(tmp_path, expected, point):
    out = tmp_path / "new"
    assert run(out, 40, point) == -signal.SIGKILL
    assert out.exists() == (point == "convert.after_commit")
    if out.exists():
        assert contents(out) == expected
    assert run(out, 40) == 0
    assert visible(out) == expected
    # What the killed one left beside it is gone.
    assert names_in(tmp_path) == ["expected", "new"]


def test_a_running_conversion_is_left_alone(tmp_path, out):
    """Another conversion of the prefix removes what is dead, and only that."""

    def reader():
        convert(out, fixed_samples(7), 2, "p", schema=FIXED)
        yield from fixed_samples(40)()

    convert(out, reader, 3, "p", schema=FIXED)
    assert labels_of(out).keys() == {shard_name("p", i, 3) for i in range(3)}

    def into_a_new_folder():
        convert(tmp_path / "new", fixed_samples(7), 2, "p", schema=FIXED)
        yield from fixed_samples(40)()

    convert(tmp_path / "new", into_a_new_folder, 3, "p", schema=FIXED)
    assert ShardManifest.load(tmp_path / "new", "p").problems(tmp_path / "new", deep=True) == []
    assert len(visible(tmp_path / "new")) == 4


def test_of_conversions_at_the_same_time_the_last_one_stays_whole(out):
    processes = []
    for shards in range(1, 6):
        process = os.fork()
        if process == 0:
            with suppress(BaseException):
                for _ in range(3):
                    convert(out, fixed_samples(40), shards, "p", schema=FIXED)
                os._exit(0)
            os._exit(1)
        processes.append(process)
    statuses = [os.waitstatus_to_exitcode(os.waitpid(each, 0)[1]) for each in processes]
    assert statuses == [0] * 5
    manifest = ShardManifest.load(out, "p")
    assert (manifest.num_samples, manifest.problems(out, deep=True)) == (40, [])
    names = [shard.name for shard in manifest.shards]
    assert names_in(out) == [".p.lock", *names, "p.shards.json"]


def test_two_prefixes_share_a_folder(out):
    convert(out, fixed_samples(7), 2, "p", schema=FIXED)
    convert(out, fixed_samples(7), 2, "p-q", schema=FIXED)
    convert(out, fixed_samples(8), 1, "p", schema=FIXED)
    for prefix in ("p", "p-q"):
        assert ShardManifest.load(out, prefix).problems(out, deep=True) == []


def test_a_folder_with_the_name_of_a_shard_is_refused_before_anything_changes(out):
    convert(out, fixed_samples(7), 2, "p", schema=FIXED)
    before = visible(out)
    (out / "p-00001-of-00002").mkdir()
    with pytest.raises(ConflictError, match="p-00001-of-00002"):
        convert(out, fixed_samples(7), 3, "p", schema=FIXED)
    assert visible(out) == before


def test_links_are_replaced_and_not_written_through(out, tmp_path):
    target = tmp_path / "elsewhere"
    target.write_text("mine")
    (out / "p-00000-of-00000").symlink_to(target)
    (out / "p.shards.json").symlink_to(target)
    convert(out, fixed_samples(3), 1, "p", schema=FIXED)
    assert target.read_text() == "mine"
    assert not (out / "p-00000-of-00000").is_symlink()


@pytest.fixture
def manifest(out):
    return convert(out, fixed_samples(9), 3, "p", schema=FIXED)


def test_a_missing_shard_is_noticed(out, manifest):
    (out / "p-00001-of-00002").unlink()
    assert manifest.problems(out) == ["p-00001-of-00002: missing"]


def test_a_foreign_shard_is_noticed(out, manifest):
    (out / "p-00000-of-00001").write_bytes(b"")
    (problem,) = manifest.problems(out)
    assert problem.startswith("p-00000-of-00001: a foreign shard")


def test_a_shard_that_was_cut_or_changed_is_noticed(out, manifest):
    first, second = out / "p-00000-of-00002", out / "p-00001-of-00002"
    first.write_bytes(first.read_bytes()[:-1])
    data = bytearray(second.read_bytes())
    data[-1] ^= 1
    second.write_bytes(data)
    assert len(manifest.problems(out)) == 1
    assert len(manifest.problems(out, deep=True)) == 2


def test_two_shards_that_changed_places_are_noticed(out, manifest):
    first, second = out / "p-00000-of-00002", out / "p-00001-of-00002"
    first.rename(out / "x")
    second.rename(first)
    (out / "x").rename(second)
    assert len(manifest.problems(out, deep=True)) == 2


def test_without_a_manifest_the_error_says_what_to_do(out):
    with pytest.raises(NotFoundError, match="convert again"):
        ShardManifest.load(out, "p")


DAMAGE = {
    "no JSON": lambda _: "{,",
    "another format": lambda value: json.dumps(value | {"format": "x"}),
    "another prefix": lambda value: json.dumps(value | {"prefix": "q"}),
    "a missing key": lambda value: json.dumps({k: v for k, v in value.items() if k != "seed"}),
    "no shards": lambda value: json.dumps(value | {"shards": [], "num_shards": 0, "samples": 0}),
    "a shard twice": lambda value: json.dumps(value | {"shards": value["shards"][:1] * 3}),
    "a path": lambda value: json.dumps(value).replace("p-00000", "../p-00000"),
    "text for a number": lambda value: json.dumps(value).replace(
        '"bytes": ', '"bytes": "1", "x": '
    ),
    "a wrong sum": lambda value: json.dumps(value | {"samples": 1}),
    "a list": lambda _: "[]",
    "an unknown container": lambda value: json.dumps(value).replace("recordio", "parquet"),
}


@pytest.mark.parametrize("damage", DAMAGE.values(), ids=DAMAGE)
def test_a_damaged_manifest_is_a_format_error(out, manifest, damage):
    path = out / "p.shards.json"
    value = json.loads(path.read_text())
    del value["digest"]
    # A digest of the damaged one, which is checked before what is in it.
    path.write_bytes(seal(damage(value).removesuffix("}").encode()))
    with pytest.raises(FormatError) as caught:
        ShardManifest.load(out, "p")
    assert caught.value.path == str(path)


def test_shard_names_are_parsed_by_the_largest_index():
    assert ShardName.parse("imagenet-00000-of-00999") == ("imagenet", 0, 1000)
    assert ShardName.parse("a-b-00002-of-00002") == ("a-b", 2, 3)
    for name in (
        "p-00001-of-00000",
        "p-0000-of-00000",
        "p-000000-of-000000",
        "-00000-of-00000",
        "p",
    ):
        assert ShardName.parse(name) is None
