"""Event files: whole after a kill, and each step once after a training goes on."""

import math
import struct
from pathlib import Path

import pytest

from tests.unit.training.points import job_in
from trainfeed.errors import StorageError
from trainfeed.tfrecord import iter_records
from trainfeed.training.tracking import EventFiles


def fields(data):
    """Return the fields of a message as (number, value) pairs: ints, bytes, or raw bytes."""
    found, at = [], 0

    def varint():
        nonlocal at
        value = shift = 0
        while True:
            byte = data[at]
            at += 1
            value |= (byte & 0x7F) << shift
            shift += 7
            if not byte & 0x80:
                return value

    while at < len(data):
        key = varint()
        number, kind = key >> 3, key & 7
        if kind == 0:
            found.append((number, varint()))
            continue
        size = {1: 8, 5: 4}.get(kind) or varint()
        found.append((number, data[at : at + size]))
        at += size
    return found


def shown(folder):
    """Return what TensorBoard shows: step and name → value, after all purges, in order of files."""
    points = {}
    for path in sorted(folder.iterdir()):
        for event in map(bytes, iter_records(path)):
            parts = dict(fields(event))
            if 7 in parts:
                points = {key: value for key, value in points.items() if key[0] < parts[2]}
            for _, value in fields(parts.get(5, b"")):
                said = dict(fields(value))
                key = (parts[2], said[1].decode())
                assert key not in points
                points[key] = struct.unpack("<f", said[2])[0]
    return points


@pytest.fixture
def files(tmp_path):
    found = EventFiles(tmp_path / "tensorboard", "flights-1")
    yield found
    found.close()


def lines(*steps, **values):
    return [
        {"step": step, "samples": 10 * step, **(values or {"loss": step / 2})} for step in steps
    ]


def test_metrics_are_shown_with_their_steps_while_the_file_is_open(files, tmp_path):
    files.begin([], [])
    files.add(1, {"loss": 0.5, "rate/top": 2})
    files.add(3, {"loss": "nan", "most": 1e300, "least": -1e300})
    found = shown(tmp_path / "tensorboard")
    assert math.isnan(found.pop((3, "loss")))
    assert found == {
        (1, "loss"): 0.5,
        (1, "rate/top"): 2.0,
        (3, "most"): math.inf,
        (3, "least"): -math.inf,
    }


def test_a_step_that_is_computed_again_is_shown_once(files, tmp_path):
    files.begin([], [])
    for line in lines(1, 2, 3, 4):
        files.add(line["step"], {"loss": line["loss"]})
    files.begin(lines(1, 2), lines(3, 4))
    files.add(3, {"loss": 9.0})
    assert shown(tmp_path / "tensorboard") == {(1, "loss"): 0.5, (2, "loss"): 1.0, (3, "loss"): 9.0}


def test_a_kept_line_of_the_step_at_which_others_are_dropped_stays(files, tmp_path):
    """Two calls for one step, with the checkpoint between them."""
    files.begin([], [])
    files.add(2, {"loss": 1.0})
    files.add(2, {"accuracy": 0.5})
    files.begin(lines(2, loss=1.0), lines(2, accuracy=0.5))
    files.add(2, {"accuracy": 0.75})
    assert shown(tmp_path / "tensorboard") == {(2, "loss"): 1.0, (2, "accuracy"): 0.75}


def test_a_training_that_starts_from_its_first_step_shows_nothing_of_the_attempt_before(
    files, tmp_path
):
    files.begin([], [])
    files.add(0, {"loss": 1.0})
    files.begin([], lines(0))
    assert shown(tmp_path / "tensorboard") == {}


def test_files_that_are_wanted_later_than_the_log_have_all_of_it(files, tmp_path):
    files.begin(lines(1, 2), lines(3))
    assert shown(tmp_path / "tensorboard") == {(1, "loss"): 0.5, (2, "loss"): 1.0}


def test_a_later_file_has_a_later_name_although_the_clock_went_back(files, tmp_path, monkeypatch):
    files.begin([], [])
    monkeypatch.setattr("trainfeed.training.tracking.tensorboard.time.time", lambda: 1.0)
    files.begin([], [])
    first, second = sorted(path.name for path in (tmp_path / "tensorboard").iterdir())
    assert int(second.split(".")[3]) == int(first.split(".")[3]) + 1


def test_a_file_in_the_place_of_the_folder_is_an_error_of_the_storage(files, tmp_path):
    (tmp_path / "tensorboard").write_text("no folder")
    with pytest.raises(StorageError):
        files.begin([], [])


def test_a_job_that_goes_on_at_its_checkpoint_shows_each_step_once(tmp_path):
    def write(folder: Path):
        (folder / "model").write_text("w")

    killed = job_in(tmp_path, tensorboard=True)
    for step in range(1, 7):
        killed.log_metrics(step, loss=step)
        if step == 4:
            killed.save(step, write)
    # No close: the process was killed.
    resumed = job_in(tmp_path, tensorboard=True)
    assert resumed.restore().step == 4
    for step in range(5, 9):
        resumed.log_metrics(step, loss=10 * step)
    resumed.close()
    killed.close()
    found = shown(tmp_path / "tensorboard")
    assert found == {(s, "loss"): float(s if s <= 4 else 10 * s) for s in range(1, 9)}


def test_without_tracking_there_is_no_file(tmp_path):
    job = job_in(tmp_path)
    job.log_metrics(1, loss=1.0)
    job.close()
    assert not (tmp_path / "tensorboard").exists()
