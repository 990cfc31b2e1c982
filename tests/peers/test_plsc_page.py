"""The scripts of docs/guides/plsc.md train with PaddlePaddle."""

import sys

import numpy as np
import paddle
import pytest

from tests.plsc_page import BLOCKS, FIRST_BLOCK, NUM_IMAGES, make_files, run
from trainfeed.compat.plsc.entry import Entry
from trainfeed.errors import ConfigError

paddle.base.core.set_num_threads(1)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    make_files(tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["train.py"])
    return tmp_path


@pytest.fixture
def namespace(folder):
    names = {"__name__": "__main__"}
    run("003-00", names, folder)
    return names


def test_a_model_is_uploaded_downloaded_trained_on_tested_and_predicts(namespace, folder):
    run("003-01", namespace, folder)
    assert (folder / "models/some_dir/0/network.npz").exists()
    run("003-02", namespace, folder)
    assert (folder / "downloaded_model/0/checkpoint.json").exists()
    entry = Entry()
    namespace["small"](entry)
    entry.set_checkpoint_dir(folder / "downloaded_model")
    (folder / "train_data").rename(folder / "lfw")
    entry.set_dataset_dir(folder)
    accuracies = entry.test().accuracies
    assert accuracies.keys() == {"lfw"}
    assert 0 <= accuracies["lfw"] <= 1
    entry.predict_reader = lambda: iter([np.zeros((3, 16, 16), np.float32)] * 3)
    embeddings = entry.predict().embeddings
    assert embeddings.shape == (3, 16)
    assert np.array_equal(embeddings[0], embeddings[2])


@pytest.mark.parametrize("name", ["003-05", "003-10"])
def test_readers_of_base64_files_and_of_the_user_train(namespace, folder, name):
    if name == "003-10":
        run("003-09", namespace, folder)
    run(name, namespace, folder)
    assert (folder / "output" / "0" / "network.npz").exists()


def test_mixed_precision_is_refused_before_the_training(namespace, folder):
    with pytest.raises(ConfigError, match="PaddlePaddle computes in float32"):
        run("003-06", namespace, folder)
    assert not (folder / "output").exists()


def test_the_custom_model_trains(namespace, folder):
    run("003-08", namespace, folder)
    saved = np.load(folder / "output" / "0" / "network.npz")
    assert sum(saved[name].size for name in saved.files) > 10_000_000


def test_the_first_script_of_the_page_trains_the_default_model(folder):
    names = {}
    exec(compile(FIRST_BLOCK, "first", "exec"), names)
    assert names["report"].steps == -(-NUM_IMAGES // 8)
    assert np.isfinite(names["report"].losses).all()


def test_what_the_page_says_of_mixed_precision_is_so():
    """PaddlePaddle computes in float32 on the CPU when it is asked for float16."""
    with paddle.amp.auto_cast(enable=True, dtype="float16"):
        product = paddle.ones([2, 2]) @ paddle.ones([2, 2])
    assert product.dtype == paddle.float32


def test_every_block_that_trains_is_run_here():
    assert set(BLOCKS) == {
        "003-00",
        "003-01",
        "003-02",
        "003-05",
        "003-06",
        "003-08",
        "003-09",
        "003-10",
    }
