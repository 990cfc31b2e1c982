"""Small sealed JSON files: typed, compared with their path, and never damaged in silence."""

import json
import subprocess
import sys
from dataclasses import dataclass

import pytest

from tests.support.roots import write_sealed
from tests.unit.processes import LIMIT_S
from trainfeed.core import canonical_json
from trainfeed.errors import FormatError
from trainfeed.files.records import ONCE_UNSEALED, ROOT_MARK_FILE, ROOT_MARKS, RecordFile, Time
from trainfeed.versions import init_root
from trainfeed.versions.root import require_root

DAY = "2026-03-05"


@dataclass(frozen=True)
class Fact:
    interval: str
    at: Time
    number: int = 0
    owner: str | None = None


FACTS = RecordFile(Fact, "a fact", "nothing was changed", place=ONCE_UNSEALED["skip"])
FACT = Fact(DAY, "2026-03-08T00:00:00Z", 7, "clicks")


@pytest.fixture
def root(tmp_path):
    init_root(tmp_path / "root")
    return tmp_path / "root"


@pytest.fixture
def path(root):
    return root / "clicks" / "plans" / DAY / "SKIPPED.json"


def unsealed(path, fact=FACT):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(canonical_json.dumps(vars(fact)))


def mark_of_before(root):
    """Take the list and the seal from the mark of a root, as it was before files had seals."""
    value = json.loads((root / ROOT_MARK_FILE).read_bytes())
    kept = {name: value[name] for name in ("format", "id", "made_at", "made_by")}
    (root / ROOT_MARK_FILE).write_bytes(canonical_json.dumps(kept))


def test_a_record_is_read_as_it_was_written(path):
    assert FACTS.read(path) is None
    assert FACTS.write_once(path, FACT)
    assert FACTS.read(path, interval=DAY, owner="clicks") == FACT
    assert not FACTS.write_once(path, Fact("other", "2026-03-08T00:00:00Z"))
    assert FACTS.read(path) == FACT
    assert FACTS.lift(path)
    assert not FACTS.lift(path)
    assert FACTS.read(path) is None


def test_no_changed_byte_is_read(path):
    FACTS.write_once(path, FACT)
    data = path.read_bytes()
    for place in range(len(data)):
        for bit in range(8):
            path.write_bytes(data[:place] + bytes([data[place] ^ 1 << bit]) + data[place + 1 :])
            with pytest.raises(FormatError):
                FACTS.read(path)
    for length in range(len(data)):
        path.write_bytes(data[:length])
        with pytest.raises(FormatError):
            FACTS.read(path)


@pytest.mark.parametrize(
    "value",
    [
        {"interval": DAY},
        {"interval": 5, "at": "2026-03-08T00:00:00Z"},
        {"interval": DAY, "at": "yesterday"},
        {"interval": DAY, "at": "2026-03-08T00:00:00Z", "number": "7"},
        {"interval": DAY, "at": "2026-03-08T00:00:00Z", "number": 7.0},
        {"interval": "2026-03-06", "at": "2026-03-08T00:00:00Z"},
        [],
        7,
    ],
)
def test_a_sealed_file_with_another_content_is_refused(path, value):
    path.parent.mkdir(parents=True)
    path.write_bytes(canonical_json.seal(canonical_json.dumps(value).removesuffix(b"}")))
    with pytest.raises(FormatError):
        FACTS.read(path, interval=DAY)


def test_the_file_of_a_neighbour_is_refused(path):
    FACTS.write_once(path, FACT)
    with pytest.raises(FormatError):
        FACTS.read(path, owner="views")


@dataclass(frozen=True)
class Count(canonical_json.JsonFields, without=("told",)):
    number: int
    told: str = ""


def positive(count):
    if count.number < 1:
        raise ValueError(f"number: got {count.number}")


COUNTS = RecordFile(Count, "a count", "nothing was changed", format=2, check=positive)
OBJECTS = RecordFile(dict, "an object", "nothing was changed")


def test_a_kind_may_have_a_format_and_members_that_no_file_has(path):
    COUNTS.write_once(path, Count(3, "three"))
    value = json.loads(path.read_bytes())
    assert value.pop("digest")
    assert value == {"format": 2, "number": 3}
    assert COUNTS.read(path, number=3) == Count(3)
    write_sealed(path, {"format": 2, "number": 4, "told": "five"})
    assert COUNTS.read(path) == Count(4)


@pytest.mark.parametrize(
    ("value", "why"),
    [
        ({"format": 3, "number": 3}, "a count: expected format 2, got 3"),
        ({"number": 3}, "a count: 'format'"),
        ({"format": 2, "number": 0}, "a count: number: got 0"),
    ],
)
def test_another_format_and_a_wrong_record_are_refused(path, value, why):
    path.parent.mkdir(parents=True)
    write_sealed(path, value)
    with pytest.raises(FormatError, match=why):
        COUNTS.read(path)


def test_an_object_is_kept_as_it_is_and_compared_with_its_path(path):
    OBJECTS.write_once(path, {"b": [1, None], "a": DAY})
    assert OBJECTS.read(path, a=DAY) == {"b": [1, None], "a": DAY}
    with pytest.raises(FormatError, match="a: expected 'other'"):
        OBJECTS.read(path, a="other")
    path.write_bytes(canonical_json.seal(b"[]"))
    with pytest.raises(FormatError):
        OBJECTS.read(path)


def test_an_equal_record_is_not_written_again(path):
    FACTS.replace(path, FACT)
    before = path.stat().st_ino
    FACTS.replace(path, FACT)
    assert path.stat().st_ino == before
    FACTS.replace(path, Fact(DAY, FACT.at, 8))
    assert FACTS.read(path).number == 8


def test_unsealed_files_count_below_a_mark_that_was_never_sealed(root, path):
    mark_of_before(root)
    unsealed(path, Fact(DAY, FACT.at))
    assert FACTS.read(path, owner="clicks") == Fact(DAY, FACT.at)


def test_the_first_write_lists_the_unsealed_files_and_no_others_count_from_then_on(root, path):
    mark_of_before(root)
    unsealed(path)
    mark = require_root(root, "TRAINFEED_ROOT")
    assert list(mark.unsealed) == [f"clicks/plans/{DAY}/SKIPPED.json"]
    assert ROOT_MARKS.read(root / ROOT_MARK_FILE) == mark
    assert FACTS.read(path) == FACT
    unsealed(path, Fact(DAY, FACT.at, 8))
    with pytest.raises(FormatError):
        FACTS.read(path)
    other = path.parent.parent / "2026-03-06" / "SKIPPED.json"
    unsealed(other)
    with pytest.raises(FormatError):
        FACTS.read(other)


def test_a_seal_cannot_be_taken_away(path):
    FACTS.write_once(path, FACT)
    unsealed(path)
    with pytest.raises(FormatError):
        FACTS.read(path)


def test_a_folder_with_data_that_becomes_a_root_keeps_its_unsealed_files(tmp_path):
    path = tmp_path / "clicks" / "plans" / DAY / "SKIPPED.json"
    unsealed(path)
    mark, is_new = init_root(tmp_path)
    assert is_new
    assert len(mark.unsealed) == 1
    assert FACTS.read(path) == FACT


def test_a_kind_that_always_had_a_seal_is_refused_without_one(root):
    path = root / "clicks" / "NOTE.json"
    unsealed(path)
    with pytest.raises(FormatError):
        RecordFile(Fact, "a fact", "nothing was changed").read(path)


def test_no_changed_byte_of_a_sealed_mark_is_read(root):
    path = root / ROOT_MARK_FILE
    data = path.read_bytes()
    for place in range(len(data)):
        path.write_bytes(data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :])
        with pytest.raises(FormatError):
            ROOT_MARKS.read(path)


def test_a_link_is_judged_by_the_root_of_its_target(root, path, tmp_path):
    kind = RecordFile(Fact, "a fact", "nothing was changed", place=FACTS.place, follow=True)
    mark_of_before(root)
    unsealed(path)
    shadow = tmp_path / "shadow"
    init_root(shadow)
    link = shadow / path.relative_to(root)
    link.parent.mkdir(parents=True)
    link.symlink_to(path)
    assert kind.read(link) == FACT
    require_root(root, "TRAINFEED_ROOT")
    assert kind.read(link) == FACT


def test_numbered_records_have_no_hole(tmp_path):
    for number in (1, 2, 3):
        FACTS.write_once(tmp_path / f"{number:04d}.json", Fact(DAY, FACT.at, number))
    assert [fact.number for _, fact in FACTS.numbered(tmp_path)] == [1, 2, 3]
    (tmp_path / "0002.json").unlink()
    with pytest.raises(FormatError, match="0002"):
        FACTS.numbered(tmp_path)


# --- threads that read the first record of a kind at once

FIRST = """
import sys, threading
from dataclasses import make_dataclass
from trainfeed.files.records import record_of

sys.setswitchinterval(1e-6)
for number in range(50):
    part = make_dataclass(f"Part{number}", [(f"f{place}", int) for place in range(20)])
    whole = make_dataclass(f"Whole{number}", [("one", part), ("many", list[part])])
    value = {f"f{place}": place for place in range(20)}
    start, found = threading.Barrier(8), []

    def read():
        start.wait()
        found.append(record_of(whole, {"one": value, "many": [value]}).many[0].f19)

    threads = [threading.Thread(target=read) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [19] * 8, found
"""


def test_threads_may_read_the_first_record_of_a_kind_at_once():
    done = subprocess.run([sys.executable, "-c", FIRST], check=False, timeout=LIMIT_S)
    assert done.returncode == 0
