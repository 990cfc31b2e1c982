"""The scripts of docs/guides/plsc.md run, with an engine that takes notes."""

import itertools
import sys

import pytest

from tests.plsc_page import BLOCKS, FIRST_BLOCK, NUM_IMAGES, ROWS, make_files, run
from trainfeed.errors import ConfigError


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


def test_every_script_has_a_row():
    without_code = {"003-03", "003-04", "003-07"}
    assert set(ROWS) == (set(BLOCKS) - {"003-00"}) | without_code


def test_the_first_script_of_the_page(folder, calls):
    exec(compile(FIRST_BLOCK, "first", "exec"), {})
    ((name, settings, labels, _),) = calls
    assert name == "train"
    assert sum(map(len, labels)) == NUM_IMAGES
    assert settings.model_save_dir == folder / "saved_model"


def test_a_model_is_uploaded_and_downloaded(namespace, folder, calls):
    run("003-01", namespace, folder)
    assert (folder / "models/some_dir/0/network.npz").read_bytes() == b"model"
    run("003-02", namespace, folder)
    assert (folder / "downloaded_model/0/network.npz").read_bytes() == b"model"
    assert [name for name, *_ in calls] == ["train", "train"]


def test_base64_images_are_read(namespace, folder, calls):
    run("003-05", namespace, folder)
    assert sum(map(len, calls[0][2])) == NUM_IMAGES


def test_mixed_precision_is_refused_by_name_and_trains_if_it_is_off(namespace, folder, calls):
    with pytest.raises(ConfigError, match=r"set_mixed_precision\(True\).*float32"):
        run("003-06", namespace, folder)
    assert not calls
    off = BLOCKS["003-06"].replace("precision(True)", "precision(False)")
    exec(compile(off, "off", "exec"), namespace)
    assert len(calls) == 1


def test_a_custom_model_is_set(namespace, folder, calls):
    run("003-08", namespace, folder)
    assert calls[0][1].model.layers == 50


def test_a_custom_reader_that_was_batched_is_not_batched_again(namespace, folder, calls):
    run("003-09", namespace, folder)
    run("003-10", namespace, folder)
    labels = calls[0][2]
    assert [len(found) for found in labels] == [8, 8, 4]
    assert list(itertools.chain(*labels)) == [n % 10 for n in range(NUM_IMAGES)]
