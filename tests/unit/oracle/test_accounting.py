"""Records that are lost, doubled, foreign, changed or misjudged are counted."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.oracle.accounting import check, position_hash, sums
from tests.oracle.independent_reader import Version
from tests.unit.oracle.conftest import write_ledger

ROOT = Path(__file__).parents[3]


@pytest.mark.parametrize(
    ("seed", "offset", "ordinal", "expected"),
    [
        (0, 0, 0, "9d3b6d300d45ebb2"),
        (7, 0, 0, "e48df865ef027eb4"),
        (7, 1, 1, "fe3c80bebbaf1bda"),
        (7, 12345678901, 0, "3a88aa37aa61f857"),
    ],
)
def test_positions_hash_as_the_vectors_of_the_format_say(seed, offset, ordinal, expected):
    assert f"{position_hash(seed, 0x79E08A47561DAF77, offset, ordinal):016x}" == expected


def test_ledger_sums_are_the_vector_of_the_format():
    positions = [(offset, 0) for offset in range(1000)]
    assert sums("kafka:flights/0", positions) == (1000, "4b7f3ed2b5753812", "d5b237e8f5b2bb7d")


def test_a_version_that_holds_what_was_acknowledged_passes(publish, ledger):
    assert check([publish()], ledger) == {
        "lost": 0,
        "doubled": 0,
        "alien": 0,
        "misjudged": 0,
        "altered": 0,
        "misfiltered": 0,
        "events": 7,
        "samples": 4,
        "quarantined": 1,
        "planted": 1,
        "filtered": 2,
        "filtered cancelled": 1,
        "filtered diverted": 1,
    }


@pytest.mark.parametrize(
    ("content", "wrong"),
    [
        ({"eval": []}, "['lost']"),
        ({"quarantined": []}, "['lost']"),
        ({"eval": [(1, 2, 0), (1, 2, 0)]}, "['doubled']"),
        ({"eval": [(1, 2, 0), (0, 3, 1)]}, "['doubled']"),
        ({"quarantined": [(0, 1), (0, 1)]}, "['doubled']"),
        ({"eval": [(1, 2, 0), (1, 9, 0)]}, "['alien']"),
        ({"quarantined": [(0, 1), (1, 9)]}, "['alien']"),
        ({"eval": [(1, 2, 0), (0, 1, 0)], "quarantined": []}, "['misjudged']"),
        ({"eval": [], "quarantined": [(0, 1), (1, 2)]}, "['misjudged']"),
        ({"eval": [(1, 2, 1)]}, "['altered']"),
        ({"raw": b"event"}, "['altered']"),
        ({"filtered": {"cancelled": [(1, 1)]}}, "['misfiltered']"),
        ({"filtered": {"cancelled": [(1, 1), (0, 2)]}}, "['misfiltered']"),
        ({"filtered": {"cancelled": [(0, 2)], "diverted": [(1, 1)]}}, "['misfiltered']"),
        ({"filtered": {"cancelled": [(1, 1)], "diverted": [(0, 2)], "old": [(0, 8)]}},
         "['misfiltered']"),
    ],
)  # fmt: skip
def test_what_differs_from_the_ledger_is_counted_under_its_name(publish, ledger, content, wrong):
    with pytest.raises(AssertionError) as caught:
        check([publish(**content)], ledger)
    assert str(caught.value).startswith(wrong)


def test_a_sample_of_a_filtered_event_is_foreign(publish, ledger):
    with pytest.raises(AssertionError, match=r"^\['alien', 'misfiltered'\]"):
        check([publish(eval=[(1, 2, 0), (1, 1, 0)], filtered={"diverted": [(0, 2)]})], ledger)


def test_an_event_nobody_published_is_lost(publish, tmp_path):
    events = [(0, 0, None, "sample", 1), (0, 7, None, "sample", 1)]
    ledger = write_ledger(tmp_path / "more.sqlite", events)
    folder = publish(train=[(0, 0, 1)], eval=[], quarantined=[], filtered={})
    with pytest.raises(AssertionError, match=r"^\['lost'\]"):
        check([folder], ledger)


@pytest.mark.parametrize("kind", ["valid", "quarantined", "filtered", "read"])
@pytest.mark.parametrize("key", ["records", "l1", "l2", "bytes"])
def test_a_manifest_ledger_that_does_not_add_up_is_refused(publish, ledger, kind, key):
    from tests.unit.oracle.conftest import write_manifest

    folder = publish()
    manifest = Version(folder).manifest
    leaf = manifest["ledger"]["kafka:t/0"][kind]
    leaf = leaf["diverted"] if kind == "filtered" else leaf
    leaf[key] = leaf[key] + 1 if isinstance(leaf[key], int) else f"{int(leaf[key], 16) ^ 1:016x}"
    write_manifest(folder, manifest)
    with pytest.raises(AssertionError, match="ledger of kafka:t/0"):
        check([folder], ledger)


def test_the_command_prints_counts_or_ends_with_status_1(publish, ledger):
    folder = publish()
    command = [sys.executable, "-m", "tests.oracle.accounting", str(ledger), str(folder)]
    good = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    (folder / "stranger").touch()
    bad = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert (good.returncode, bad.returncode) == (0, 1)
    assert '"lost": 0' in good.stdout
    assert "stranger" in bad.stderr
