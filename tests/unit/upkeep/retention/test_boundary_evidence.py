"""Random topics and retired intervals: what stays answers all that was asked of all files."""

import json
import tempfile
from datetime import UTC, datetime, timedelta
from pathlib import Path

from hypothesis import example, given, settings
from hypothesis import strategies as st

from trainfeed.pipeline.inputs.boundary_files import (
    EarlierBoundaries,
    is_first_topic,
    read_boundary,
)
from trainfeed.upkeep.retention.boundaries import evidence_of

START = datetime(2024, 3, 1, tzinfo=UTC)
DAYS = 7
RECORDS = 10  # of a day
PARTITIONS = (0, 1)

# For each boundary: days until it was found, the days that the topic held then, and for how many
# of its partitions it is a proof.
found = st.tuples(st.integers(0, 9), st.integers(1, 9), st.sampled_from("ab-"))


def time_of(day):
    return START + timedelta(days=day)


def stamp(time):
    return f"{time:%Y-%m-%dT%H:%M:%SZ}"


def partition(day, lag, held, proof, limits):
    """A boundary of a log that grows by some records a day and loses its oldest days."""
    end = RECORDS * (day + lag) + 5
    start = max(0, RECORDS * (day + lag - held))
    offset = min(max(start, RECORDS * day, limits[0]), limits[1])
    return {
        "offset": offset, "log_start": 0 if proof else start, "log_end": max(end, offset),
        "leader_epoch": None, "record_timestamp_ms": None, "method": "scan",
    }  # fmt: skip


def write(folder, day, lag, held, proof, *, added=0, limits=(0, 1 << 40)):
    """Write a file without evidence: such files lean on earlier ones most."""
    parts = {"0": partition(day, lag, held, proof in "ab", limits)}
    if day + lag >= added:
        parts["1"] = partition(day, lag, held, proof == "b", limits)
    value = {
        "at": stamp(time_of(day)), "found_at": stamp(time_of(day + lag)), "partitions": parts,
        "topic": folder.parent.name, "topic_uuid": folder.name, "cluster": "c",
    }  # fmt: skip
    path = folder / f"{time_of(day):%Y%m%dT%H%M%SZ}.json"
    path.write_text(json.dumps(value))
    return path


def write_all(folder, files, added):
    """Write the files in the order in which they were found, each between those of its time.

    The second partition was added on the day ``added``.
    """
    paths, offsets = {}, {}
    for day, (lag, *rest) in sorted(files.items(), key=lambda item: item[0] + item[1][0]):
        below = max((offset for each, offset in offsets.items() if each < day), default=0)
        above = min((offset for each, offset in offsets.items() if each > day), default=1 << 40)
        path = write(folder, day, lag, *rest, added=added, limits=(below, above))
        paths[time_of(day)] = path
        offsets[day] = read_boundary(path).offset(0)
    return paths


def answers(folder, times):
    """All that planners get from the files before each of some times."""
    told = {}
    for at in times:
        earlier = EarlierBoundaries(folder, at)
        told[at] = is_first_topic(folder, at)
        for number in PARTITIONS:
            told[at, number] = next(
                (e.offset(number) for e in earlier if e.is_proved_alone(number)), 0
            )
            for start in range(0, RECORDS * (DAYS + 10), RECORDS // 2):
                told[at, number, start] = earlier.proof_for(number, start) is not None
    return told


# Found on one day, long after: each is proved, and only the nearest to a needed one stays.
LATE = [(9 - day, 40, "b") for day in range(DAYS)]

# The nearest one is not proved, but the one before it is.
UNPROVED = [(9 - day, 8, "-" if day == 3 else "b") for day in range(DAYS)]


@settings(max_examples=60, deadline=None)
@given(
    files=st.lists(found, min_size=DAYS, max_size=DAYS),
    there=st.sets(st.integers(0, DAYS - 1), min_size=5),
    retired=st.sets(st.integers(0, DAYS - 2), min_size=4),
    added=st.integers(0, 12),
    has_other=st.booleans(),
)
@example(files=UNPROVED, there=set(range(DAYS)), retired={0, 1, 2, 3}, added=0, has_other=False)
@example(files=LATE, there=set(range(DAYS)), retired={0, 1, 2, 3}, added=0, has_other=False)
def test_no_answer_changes(files, there, retired, added, has_other):
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place) / "a" / "boundaries" / "topic" / "now"
        folder.mkdir(parents=True)
        if has_other:
            (folder.parent / "before").mkdir()
            write(folder.parent / "before", 0, 1, 1, "-")
        paths = write_all(folder, {day: files[day] for day in there}, added)
        live = [day for day in range(20) if day not in retired]
        needed = {time_of(day + end) for day in live for end in (0, 1)}
        unneeded = [at for at in paths if at not in needed]
        if not unneeded:
            return
        before = answers(folder, sorted(needed))
        stays = evidence_of(paths, unneeded, needed)
        assert set(stays) <= set(unneeded)
        for at in unneeded:
            if at not in stays:
                paths[at].unlink()
        assert answers(folder, sorted(needed)) == before
        assert any(folder.iterdir())


def test_what_is_proved_and_found_at_once_needs_one_file(tmp_path):
    paths = {time_of(day): write(tmp_path, day, *LATE[day]) for day in range(5)}
    unneeded = [time_of(day) for day in range(4)]
    stays = evidence_of(paths, unneeded, {time_of(4), time_of(5)})
    assert list(stays) == [time_of(3)]
    assert read_boundary(paths[time_of(3)]).is_proved_alone(0)
