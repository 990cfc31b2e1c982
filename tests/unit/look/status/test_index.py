"""The index of a status: whatever becomes of it, the answer is that of the folders."""

import json
import os
import shutil
import threading
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path

import pytest
import xxhash
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.look.status.conftest import START, Days
from tests.unit.look.status.published import publish, topic
from trainfeed.core.intervals import Schedule
from trainfeed.look.status import versions as _versions
from trainfeed.look.status.versions import INDEX, parse_index, read_index, write_index
from trainfeed.versions import DatasetFolder, record_schedule

NOW = datetime(2026, 1, 9, tzinfo=UTC)
DAYS = list(islice(Schedule("@daily", START).intervals(), 8))


def index_of(days):
    return days.folder.path / INDEX


def without_index(days):
    """Return the answer of a look at the folders alone."""
    path = index_of(days)
    kept = path.read_bytes() if path.exists() else None
    path.unlink(missing_ok=True)
    found = days.status(NOW)
    path.unlink(missing_ok=True)
    if kept is not None:
        path.write_bytes(kept)
    return found


def opened(monkeypatch):
    """Count the manifests that are opened."""
    counted = []
    read = _versions.Manifest.read

    def counting(path):
        counted.append(Path(path))
        return read(path)

    monkeypatch.setattr(_versions.Manifest, "read", counting)
    return counted


def test_a_second_status_opens_no_manifest_and_one_after_a_publication_opens_one(
    days, at_once, monkeypatch
):
    for each in DAYS[:3]:
        publish(days.folder, each)
    counted = opened(monkeypatch)
    first = days.status(NOW)
    assert len(counted) == 3
    assert days.status(NOW) == first
    assert len(counted) == 3
    publish(days.folder, DAYS[3])
    assert days.status(NOW).counts["published"] == 4
    assert len(counted) == 4


def test_a_version_that_was_written_just_now_is_not_indexed_yet(days, monkeypatch):
    publish(days.folder, DAYS[0])
    days.status(NOW)
    assert not index_of(days).exists()


def test_an_account_that_may_not_write_gets_the_same_answer(days, at_once, monkeypatch):
    from trainfeed.errors import AccessDeniedError
    from trainfeed.look.status import versions as _index

    def refuse(*_, **__):
        raise AccessDeniedError("read-only")

    monkeypatch.setattr(_index.posix, "replace_file", refuse)
    publish(days.folder, DAYS[0])
    assert days.status(NOW).counts == {"published": 1, "missing": 7}
    assert not index_of(days).exists()


def test_a_row_counts_only_if_the_folder_has_the_names_that_it_had(days, at_once, monkeypatch):
    publish(days.folder, DAYS[0])
    counted = opened(monkeypatch)
    days.status(NOW)
    (days.folder.interval(DAYS[0].name) / ".lock").touch()
    days.status(NOW)
    assert len(counted) == 2
    days.status(NOW)
    assert len(counted) == 2


def change_in_place(path, old, new):
    """Change bytes of a file, until the clock of the file system has moved on."""
    before = path.stat().st_ctime_ns
    while path.stat().st_ctime_ns == before:
        path.write_bytes(path.read_bytes().replace(old, new))


@pytest.mark.parametrize("name", ["MANIFEST.json", "MANIFEST.sha256"])
def test_a_file_of_a_manifest_that_was_changed_in_its_place_is_found(days, at_once, name):
    version = publish(days.folder, DAYS[0])
    assert days.status(NOW).counts["published"] == 1
    change_in_place(version / name, b"0", b"1")
    assert days.status(NOW).counts["damaged"] == 1


def test_a_version_of_the_same_name_that_was_built_anew_is_seen(days, at_once):
    publish(days.folder, DAYS[0])
    days.status(NOW)
    shutil.rmtree(days.folder.interval(DAYS[0].name))
    publish(days.folder, DAYS[0], empty=True)
    assert days.status(NOW).counts["empty"] == 1


def line(row):
    """Return a line with the right checksum."""
    data = json.dumps(row, separators=(",", ":")).encode()
    checksum = xxhash.xxh3_64_hexdigest(data).encode()
    return b'{"format":2,"sum":"' + checksum + b'","row":' + data + b"}"


def rows(path):
    return [json.loads(each)["row"] for each in path.read_bytes().splitlines()]


# Damage and forgery of an index: what the file holds → what it holds afterwards.
def truncated(data, number):
    return data[: number % (len(data) + 1)]


def flipped(data, number):
    if not data:
        return data
    at = number % len(data)
    return data[:at] + bytes([data[at] ^ 1 << number % 8]) + data[at + 1 :]


def swapped(data, number):
    """Give each interval the row of another, with right checksums."""
    found = [json.loads(each)["row"] for each in data.splitlines()]
    names = [row[0] for row in found]
    turned = names[number % max(1, len(names)) :] + names[: number % max(1, len(names))]
    return b"\n".join(line([name, *row[1:]]) for name, row in zip(turned, found, strict=True))


def renamed(data, number):
    """Say that the folders had other names than they have."""
    found = [json.loads(each)["row"] for each in data.splitlines()]
    other = [["CURRENT", "g0002"], [], ["g0001"], ["g0001.withdrawn"]][number % 4]
    return b"\n".join(
        line([row[0], other, 2, row[3], {**row[4], "empty": "forged"}])
        for row in found
        if row[1] != other
    )


def of_other_types(data, number):
    found = [json.loads(each)["row"] for each in data.splitlines()]
    value = [None, "x", -1, [], {}, 1.5][number % 6]
    at = number % 5
    return b"\n".join(line([*row[:at], value, *row[at + 1 :]]) for row in found)


def foreign(data, number):
    others = [b"", b"\n\n", b"{}", b"[1]", b"\xff" * 64, data + data, b'{"format":2,"sum":"' * 9]
    return others[number % 7]


HARMS = [truncated, flipped, swapped, renamed, of_other_types, foreign]


def publish_one(days, number):
    """Publish a further generation of a day, of one of several kinds."""
    interval = DAYS[number % 3]
    kinds = [
        {},
        {"empty": True},
        {"gaps": [{"source": "kafka:clicks/0", "start": 0, "end": 3, "why": "w"}]},
        {"late": {"late": 2, "max_lateness_ms": 90_000_000}},
        {"inputs": topic(number, number + 5)},
    ]
    generation = days.folder.last_generation(interval.name) + 1
    points = number % 3 > 0
    publish(days.folder, interval, generation, points=points, **kinds[number % len(kinds)])


def withdraw(days, number):
    name = DAYS[number % 3].name
    for generation in days.folder.generations(name)[-1:]:
        (days.folder.version(name, generation).parent / f"g{generation:04d}.withdrawn").touch()


def drop(days, number):
    shutil.rmtree(days.folder.interval(DAYS[number % 3].name), ignore_errors=True)


def replace_manifest(days, number):
    """Put another file in the place of a manifest, by rename as tools do."""
    name = DAYS[number % 3].name
    for generation in days.folder.generations(name)[-1:]:
        path = days.folder.version(name, generation) / "MANIFEST.json"
        other = path.with_name("other")
        other.write_bytes(path.read_bytes().replace(b"true", b"false"))
        other.replace(path)


def ask(days, _):
    """Compare the answers with and without the index, and leave the index of the answer."""
    expected = without_index(days)
    assert days.status(NOW) == expected


def harm(days, number):
    path = index_of(days)
    data = path.read_bytes() if path.exists() else b""
    try:
        path.write_bytes(HARMS[number % len(HARMS)](data, number // len(HARMS)))
    except (ValueError, KeyError, TypeError):  # the file was harmed before, and has no rows
        path.write_bytes(b"")
    ask(days, number)


def go_back(days, _):
    """Bring an old index back, as a restore from a backup does."""
    old = days.root / "old"
    if old.exists():
        index_of(days).write_bytes(old.read_bytes())
    elif index_of(days).exists():
        old.write_bytes(index_of(days).read_bytes())


STEPS = [publish_one, publish_one, withdraw, drop, replace_manifest, ask, ask, harm, harm, go_back]


@settings(max_examples=150)
@given(st.lists(st.tuples(st.sampled_from(STEPS), st.integers(0, 2_000)), max_size=30))
def test_with_and_without_an_index_the_answer_is_equal_after_any_history(tmp_path_factory, history):
    days = Days(tmp_path_factory.mktemp("root"))
    record_schedule(days.folder, Schedule("@daily", START))
    settled, _versions._SETTLED_NS = _versions._SETTLED_NS, 0
    try:
        for step, number in history:
            step(days, number)
        ask(days, 0)
        ask(days, 0)
    finally:
        _versions._SETTLED_NS = settled


def test_the_harms_of_the_property_reach_the_rows(days, at_once):
    for each in DAYS[:3]:
        publish(days.folder, each)
    days.status(NOW)
    data = index_of(days).read_bytes()
    assert len(parse_index(data)) == len(rows(index_of(days))) == 3
    assert len(parse_index(swapped(data, 1))) == 3
    assert len(parse_index(renamed(data, 0))) == 3
    assert len(parse_index(truncated(data, len(data) - 5))) == 2
    assert len(parse_index(flipped(data, 60))) == 2


def test_two_writers_at_once_leave_one_whole_index(days, at_once):
    for each in DAYS:
        publish(days.folder, each)
    days.status(NOW)
    both = list(read_index(days.folder).values())
    start = threading.Barrier(4)
    torn = []

    def write():
        start.wait()
        for _ in range(20):
            write_index(days.folder, both)

    def read():
        start.wait()
        torn.extend(len(read_index(days.folder)) != len(both) for _ in range(60))

    threads = [threading.Thread(target=each) for each in (write, write, read, read)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert not any(torn)
    assert [p.name for p in days.folder.path.iterdir() if "tmp" in p.name] == []


def test_an_index_that_is_a_link_or_a_pipe_is_not_followed(days, at_once, tmp_path):
    publish(days.folder, DAYS[0])
    elsewhere = tmp_path / "elsewhere"
    elsewhere.write_bytes(b"kept")
    index_of(days).symlink_to(elsewhere)
    assert days.status(NOW).counts["published"] == 1
    assert elsewhere.read_bytes() == b"kept"
    index_of(days).unlink()
    os.mkfifo(index_of(days))
    assert days.status(NOW).counts["published"] == 1


def test_no_folder_of_a_data_set_is_needed(tmp_path):
    folder = DatasetFolder(tmp_path, "clicks")
    assert read_index(folder) == {}
    assert not write_index(folder, [])
