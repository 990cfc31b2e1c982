"""Checkpoints: whole or not at all, the newest ones, and never those of another job."""

import logging
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.unit.training.points import job_in, model_of, writer
from trainfeed.core import faults
from trainfeed.errors import ConfigError, JobRejectedError, StorageError
from trainfeed.files import is_unfinished

ROOT = Path(__file__).parents[3]


def folders(home):
    return sorted(path.name for path in (home / "checkpoints").iterdir())


def test_a_training_begins_without_a_checkpoint_and_goes_on_with_the_newest(tmp_path):
    job = job_in(tmp_path)
    assert job.restore() is None
    for step in (1, 2, 3):
        job.save(step, writer(10 * step))
    found = job_in(tmp_path).restore()
    assert (found.step, model_of(found)) == (3, 30)


def test_the_last_ones_are_kept_and_nothing_else_stays(tmp_path):
    job = job_in(tmp_path)
    for step in range(6):
        job.save(step, writer(step))
    assert folders(tmp_path) == ["000000000003", "000000000004", "000000000005"]
    job.save(9, writer(9), keep=1)
    assert folders(tmp_path) == ["000000000009"]


def damage_model(path):
    data = bytearray((path / "model.npz").read_bytes())
    data[len(data) // 2] ^= 1
    (path / "model.npz").write_bytes(data)


def cut_model(path):
    data = (path / "model.npz").read_bytes()
    (path / "model.npz").write_bytes(data[:-5])


def damage_note(path):
    note = (path / "checkpoint.json").read_bytes()
    (path / "checkpoint.json").write_bytes(note.replace(b'"step":2', b'"step":7'))


DAMAGES = [
    damage_model,
    cut_model,
    damage_note,
    lambda path: (path / "model.npz").unlink(),
    lambda path: (path / "checkpoint.json").unlink(),
    lambda path: (path / "checkpoint.json").write_bytes(b""),
    lambda path: [each.unlink() for each in path.iterdir()],
]


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_checkpoint_is_passed_over_with_a_warning(tmp_path, caplog, damage):
    job = job_in(tmp_path)
    job.save(1, writer(1))
    job.save(2, writer(2))
    damage(tmp_path / "checkpoints" / "000000000002")
    with caplog.at_level(logging.WARNING):
        found = job_in(tmp_path).restore()
    assert (found.step, model_of(found)) == (1, 1)
    assert "000000000002 is not whole and is passed over: " in caplog.text
    # The step is reached once more, and its checkpoint is a whole one then.
    job.save(2, writer(22))
    assert model_of(job_in(tmp_path).restore()) == 22


def test_when_all_are_damaged_the_training_begins_and_says_so(tmp_path, caplog):
    job_in(tmp_path).save(1, writer(1))
    damage_model(tmp_path / "checkpoints" / "000000000001")
    assert job_in(tmp_path).restore() is None
    assert "is passed over" in caplog.text


def test_a_whole_checkpoint_of_a_step_is_not_written_again(tmp_path):
    job_in(tmp_path).save(1, writer(1))
    job_in(tmp_path).save(1, writer(2))
    assert model_of(job_in(tmp_path).restore()) == 1
    assert folders(tmp_path) == ["000000000001"]


@pytest.mark.parametrize("other", [{"seed": 8}, {"code": "1" * 64}, {"entry": "train:other"}])
def test_a_checkpoint_of_another_job_is_refused_and_kept(tmp_path, other):
    job_in(tmp_path / "a", **other).save(1, writer(1))
    shutil.copytree(tmp_path / "a" / "checkpoints", tmp_path / "b" / "checkpoints")
    with pytest.raises(JobRejectedError, match="expected a checkpoint of job points-2026-01-01-"):
        job_in(tmp_path / "b").restore()
    assert folders(tmp_path / "b") == ["000000000001"]


def test_only_rank_0_writes_and_all_restore(tmp_path):
    writing, other = (job_in(tmp_path, rank, ranks=2) for rank in (0, 1))
    other.save(4, lambda _: pytest.fail("rank 1 was asked to write"))
    assert not (tmp_path / "checkpoints").exists()
    writing.save(4, writer(4))
    for rank in (0, 1):
        assert model_of(job_in(tmp_path, rank, ranks=2).restore()) == 4


def linked(folder):
    (folder / "model").symlink_to("/etc/hostname")


@pytest.mark.parametrize(
    ("write", "got"),
    [
        (lambda _: None, "nothing"),
        (linked, "model"),
        (lambda folder: (folder / "checkpoint.json").write_text("{}"), "checkpoint.json"),
        (lambda folder: (folder / "empty").mkdir(), "nothing"),
    ],
)
def test_what_is_no_file_of_a_model_is_refused(tmp_path, write, got):
    job = job_in(tmp_path)
    with pytest.raises(ConfigError, match=f"got {got}; the checkpoints before are untouched"):
        job.save(1, write)
    assert folders(tmp_path) == []


def test_a_failing_write_leaves_nothing_and_the_checkpoint_before(tmp_path):
    def fail(folder):
        writer(2)(folder)
        raise OSError(28, "No space left on device")

    job = job_in(tmp_path)
    job.save(1, writer(1))
    with pytest.raises(OSError, match="No space left"):
        job.save(2, fail)
    assert folders(tmp_path) == ["000000000001"]


PROGRAM = """
import sys
from pathlib import Path
from tests.unit.training.points import job_in, writer

job = job_in(Path(sys.argv[1]))
job.restore()
for step in (1, 2):
    job.save(step, writer(step), keep=1)
"""


@pytest.mark.parametrize(
    ("point", "whole"), [("checkpoint.before_rename", None), ("checkpoint.after_rename", 1)]
)
def test_a_kill_leaves_the_checkpoint_whole_or_none(tmp_path, point, whole):
    environment = {
        "PYTHONPATH": f"{ROOT}:{ROOT / 'include'}",
        faults.VARIABLE: f"{point}:kill:{tmp_path}",
    }
    command = [sys.executable, "-c", PROGRAM, str(tmp_path)]
    assert subprocess.run(command, env=environment, check=False).returncode == -signal.SIGKILL
    found = job_in(tmp_path).restore()
    assert found is None if whole is None else (found.step, model_of(found)) == (whole, whole)
    # The next process removes what the killed one has left.
    subprocess.run(command, env=environment, check=True)
    assert folders(tmp_path) == ["000000000002"]
    assert not any(is_unfinished(name) for name in folders(tmp_path))


@pytest.mark.parametrize(
    ("step", "keep"), [(-1, 3), (True, 3), (1.5, 3), (10**12, 3), (1, 0), (1, None)]
)
def test_steps_and_numbers_of_checkpoints_are_whole_numbers(tmp_path, step, keep):
    with pytest.raises(ConfigError, match="as a whole number"):
        job_in(tmp_path).save(step, writer(1), keep=keep)


def test_a_folder_that_cannot_be_written_is_one_clear_error(tmp_path):
    job = job_in(tmp_path)
    (tmp_path / "checkpoints").write_text("a file in the place of the folder")
    with pytest.raises((StorageError, FileExistsError)):
        job.save(1, writer(1))
