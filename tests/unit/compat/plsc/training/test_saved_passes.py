"""Checkpoints of passes: whole or absent, verified, and read by any number of ranks."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from trainfeed.compat.plsc.checkpoints import (
    CheckpointNote,
    newest_checkpoint,
    read_checkpoint,
    save_checkpoint,
)
from trainfeed.compat.plsc.classifier import Ranks
from trainfeed.errors import ChecksumError, ConfigError, FormatError, NotFoundError

ONE = Ranks(0, 1)
NETWORK = {"fc_0.w_0": np.arange(6, dtype=np.float32).reshape(2, 3)}
HEAD = {"final_fc.w_0": np.arange(20, dtype=np.float32).reshape(2, 10)}


def note(epoch=1, **changes):
    values = {
        "epoch": epoch,
        "step": 7 * epoch,
        "loss_type": "softmax",
        "emb_dim": 2,
        "num_classes": 10,
        "pretrain_nranks": 1,
        "scheduler": {},
    }
    return CheckpointNote(**{**values, **changes})


def save(folder, epoch=1, network=NETWORK):
    return save_checkpoint(folder, note(epoch), network, HEAD, ONE)


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def test_a_checkpoint_is_read_as_it_was_saved(tmp_path):
    path = save(tmp_path, 3)
    assert path == tmp_path / "2"
    assert names(path) == ["checkpoint.json", "fc.npz", "meta.json", "network.npz"]
    meta = json.loads((path / "meta.json").read_text())
    assert meta == {"emb_dim": 2, "num_classes": 10, "pretrain_nranks": 1}
    saved = newest_checkpoint(path)
    assert (saved.note, saved.path) == (note(3), path)
    arrays = saved.arrays(0, 10)
    assert {name: values.tobytes() for name, values in arrays.items()} == {
        name: values.tobytes() for name, values in (NETWORK | HEAD).items()
    }


def test_equal_values_give_equal_bytes(tmp_path):
    files = [[p.read_bytes() for p in sorted(save(tmp_path / n).iterdir())] for n in "ab"]
    assert files[0] == files[1]


def test_the_newest_whole_pass_is_found_and_numbers_are_compared_as_numbers(tmp_path, caplog):
    for epoch in (10, 11, 12):
        save(tmp_path, epoch)
    save(tmp_path, 2)
    (tmp_path / "11" / "fc.npz").write_bytes(b"damaged")
    assert newest_checkpoint(tmp_path).note.epoch == 11
    assert "checkpoint" in caplog.text
    assert "is passed over" in caplog.text


def test_no_checkpoint_is_an_error_that_names_the_folder(tmp_path):
    with pytest.raises(NotFoundError, match=str(tmp_path)):
        newest_checkpoint(tmp_path)
    with pytest.raises(NotFoundError, match="absent"):
        newest_checkpoint(tmp_path / "absent")


def test_a_changed_or_missing_file_is_found(tmp_path):
    path = save(tmp_path)
    whole = (path / "network.npz").read_bytes()
    (path / "network.npz").write_bytes(whole[:-1] + b"x")
    with pytest.raises(ChecksumError, match=r"network\.npz"):
        newest_checkpoint(path)
    (path / "network.npz").unlink()
    with pytest.raises(NotFoundError, match=r"network\.npz"):
        newest_checkpoint(path)
    (path / "checkpoint.json").write_bytes(b"{}")
    with pytest.raises(FormatError):
        newest_checkpoint(path)


def test_metadata_that_differ_from_the_note_are_refused(tmp_path):
    from trainfeed.training.jobs import digested_below, seal_checkpoint_note

    path = save(tmp_path)
    (path / "meta.json").write_text('{"emb_dim": 2, "num_classes": 11, "pretrain_nranks": 1}')
    (path / "checkpoint.json").unlink()
    sealed = seal_checkpoint_note(vars(note()), digested_below(path))
    (path / "checkpoint.json").write_bytes(sealed)
    with pytest.raises(ConfigError, match=r"'num_classes': 10.*'num_classes': 11"):
        read_checkpoint(path)


def test_a_pass_that_is_saved_again_replaces_the_older_checkpoint(tmp_path):
    save(tmp_path)
    changed = {"fc_0.w_0": NETWORK["fc_0.w_0"] + 1}
    save(tmp_path, network=changed)
    assert names(tmp_path) == ["0"]
    read = newest_checkpoint(tmp_path).network["fc_0.w_0"]
    assert read.tolist() == changed["fc_0.w_0"].tolist()


@pytest.mark.parametrize("ranks", [1, 3, 4, 10])
@pytest.mark.parametrize("readers", [1, 2, 3, 7])
def test_a_divided_head_is_read_by_any_number_of_ranks(tmp_path, ranks, readers):
    from trainfeed.compat.plsc.checkpoints import Saved

    whole = {
        "final_fc.w_0": np.arange(20).reshape(2, 10),
        "final_fc.b_0": np.arange(10),
        "optimizer/final_fc.w_0_velocity_0": np.arange(20).reshape(2, 10) * 2,
    }
    powers = {
        f"optimizer/final_fc.{end}_beta1_pow_acc_0": np.full([1], 0.81) for end in ("w_0", "b_0")
    }
    heads = [
        {
            name: values[..., 10 * r // ranks : 10 * (r + 1) // ranks]
            for name, values in whole.items()
        }
        | powers
        for r in range(ranks)
    ]
    saved = Saved(tmp_path, note(loss_type="dist_softmax"), {}, tuple(heads))
    parts = [saved.arrays(10 * r // readers, 10 * (r + 1) // readers) for r in range(readers)]
    for name, values in whole.items():
        got = np.concatenate([part[name] for part in parts], axis=-1)
        assert got.tolist() == values.tolist()
    for name, power in powers.items():
        assert [part[name].tolist() for part in parts] == [power.tolist()] * readers


def test_a_kill_before_the_rename_leaves_the_checkpoints_before_and_no_new_one(tmp_path):
    save(tmp_path, 1)
    script = (
        "import sys; from pathlib import Path;"
        "from tests.unit.compat.plsc.training.test_saved_passes import save;"
        "save(Path(sys.argv[1]), 2)"
    )
    root = Path(__file__).parents[5]
    environ = os.environ | {
        "PYTHONPATH": f"{root}:{root / 'include'}",
        "TRAINFEED_FAULTS": "plsc_checkpoint.before_rename:kill",
    }
    done = subprocess.run([sys.executable, "-c", script, str(tmp_path)], env=environ, check=False)
    assert done.returncode == -9
    assert newest_checkpoint(tmp_path).note.epoch == 1
    save(tmp_path, 2)
    assert names(tmp_path) == ["0", "1"]
