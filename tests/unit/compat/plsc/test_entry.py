"""What an entry checks before the engine gets to work, and what the engine gets."""

import numpy as np
import pytest
from PIL import Image

from tests.unit.compat.plsc.conftest import SHAPE
from trainfeed.compat.plsc.entry import Entry
from trainfeed.compat.plsc.settings import Report
from trainfeed.errors import ConfigError, FormatError, TrainFeedError


def images(folder, count=6):
    folder.mkdir(parents=True, exist_ok=True)
    for n in range(count):
        Image.fromarray(np.full((2, 2, 3), n, np.uint8)).save(folder / f"{n}.png")
    (folder / "label.txt").write_text("".join(f"{n}.png {n % 2}\n" for n in range(count)))


def test_the_engine_gets_settings_and_the_samples_of_a_custom_reader(entry, calls):
    assert entry.train() == Report(epochs=1)
    ((name, settings, labels, _),) = calls
    assert name == "train"
    assert settings == entry.settings
    assert labels == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]


def test_without_a_custom_reader_the_folder_of_images_is_read_and_counted(entry, calls, tmp_path):
    images(tmp_path / "data")
    entry.train_reader = None
    entry.set_dataset_dir(tmp_path / "data")
    entry.train()
    ((_, settings, labels, _),) = calls
    assert [len(found) for found in labels] == [4, 2]
    assert settings.train_image_num == 6


def test_test_sets_are_folders_or_the_test_reader(entry, calls, tmp_path):
    (tmp_path / "old").mkdir()
    (tmp_path / "old" / "0").mkdir()
    entry.set_checkpoint_dir(tmp_path / "old")
    entry.set_dataset_dir(tmp_path)
    with pytest.raises(ConfigError, match=r"val_target 'lfw'.*test_reader.*set_with_test\(False\)"):
        entry.test()
    images(tmp_path / "lfw")
    entry.test()
    entry.test_reader = entry.train_reader
    entry.test()
    assert [name for name, *_ in calls] == ["test", "test"]


def divided(entry, tmp_path):
    entry.set_loss_type("dist_arcface")


def half(entry, tmp_path):
    entry.set_mixed_precision(True)


def no_test_set(entry, tmp_path):
    entry.set_with_test(True)


def no_data(entry, tmp_path):
    entry.train_reader = None
    entry.set_dataset_dir(tmp_path / "missing")


def gray(entry, tmp_path):
    entry.train_reader = None
    entry.set_image_shape([1, 2, 2])


def no_checkpoint(entry, tmp_path):
    entry.set_checkpoint_dir(tmp_path / "missing")


def empty_checkpoint(entry, tmp_path):
    (tmp_path / "empty").mkdir()
    entry.set_checkpoint_dir(tmp_path / "empty")


def ambiguous(entry, tmp_path):
    entry.train_reader = lambda: iter([np.zeros(SHAPE)])


REFUSED = [
    (divided, r"two ranks or more for loss_type dist_arcface.*set_loss_type\('arcface'\)"),
    (half, "float32, got set_mixed_precision"),
    (no_test_set, "val_target 'lfw'"),
    (no_data, "set_dataset_dir"),
    (gray, r"image_shape of \(3, height, width\)"),
    (no_checkpoint, "a checkpoint in"),
    (empty_checkpoint, "a checkpoint in"),
    (ambiguous, "train_reader"),
]


@pytest.mark.parametrize(
    ("change", "message"), REFUSED, ids=lambda value: getattr(value, "__name__", "")
)
def test_a_training_that_cannot_succeed_is_refused_before_it_begins(
    entry, calls, tmp_path, change, message
):
    change(entry, tmp_path)
    with pytest.raises(ConfigError, match=message):
        entry.train()
    assert not calls


def test_a_wrong_line_of_the_list_is_found_before_the_training(entry, calls, tmp_path):
    images(tmp_path / "data")
    entry.train_reader = None
    entry.set_dataset_dir(tmp_path / "data")
    entry.set_class_num(1)
    with pytest.raises(FormatError, match=r"line 2: .*set_class_num\(\)"):
        entry.train()
    assert not calls


def test_mixed_precision_that_is_off_trains(entry, calls):
    entry.set_mixed_precision(False)
    entry.train()
    assert len(calls) == 1


def test_a_divided_head_trains_on_two_ranks(entry, calls, monkeypatch):
    monkeypatch.setenv("PADDLE_TRAINERS_NUM", "2")
    second = Entry()
    second.set_image_shape(SHAPE)
    second.set_with_test(False)
    second.set_model_save_dir(entry.settings.model_save_dir)
    second.train_reader = entry.train_reader
    second.train()
    assert calls[0][1].loss_type.is_divided


@pytest.mark.parametrize("folder", ["/proc/self", "file/output"])
def test_a_folder_that_cannot_be_written_is_refused(entry, calls, tmp_path, folder):
    (tmp_path / "file").write_bytes(b"")
    entry.set_model_save_dir(tmp_path / folder)
    with pytest.raises(TrainFeedError, match=folder):
        entry.train()
    assert not calls


def test_tests_predictions_and_conversions_need_a_checkpoint(entry, calls, tmp_path):
    entry.test_reader = entry.predict_reader = entry.train_reader
    for method in (entry.test, entry.predict, entry.convert_for_prediction):
        with pytest.raises(ConfigError, match=r"set_checkpoint_dir\(\)"):
            method()
    (tmp_path / "old" / "0").mkdir(parents=True)
    entry.set_checkpoint_dir(tmp_path / "old")
    for method in (entry.test, entry.predict, entry.convert_for_prediction):
        method()
    assert [name for name, *_ in calls] == ["test", "predict", "convert_for_prediction"]


def test_a_prediction_needs_its_reader(entry, calls, tmp_path):
    (tmp_path / "old" / "0").mkdir(parents=True)
    entry.set_checkpoint_dir(tmp_path / "old")
    with pytest.raises(ConfigError, match="predict_reader"):
        entry.predict()
    assert not calls


def test_a_begun_pass_ends_with_a_training_that_fails(entry, monkeypatch):
    from trainfeed.compat.plsc import engine

    ended = []

    def read():
        try:
            while True:
                yield np.zeros(SHAPE, np.float32), 0
        finally:
            ended.append(True)

    def fails(settings, readers):
        raise RuntimeError("the engine")

    monkeypatch.setattr(engine, "train", fails)
    entry.train_reader = read
    with pytest.raises(RuntimeError, match="the engine"):
        entry.train()
    assert ended


def with_passes(folder, *numbers):
    for number in numbers:
        (folder / str(number)).mkdir(parents=True)
    return folder


@pytest.mark.parametrize("start", [None, "elsewhere", "elsewhere/0"])
def test_passes_of_another_training_in_model_save_dir_are_refused(entry, calls, tmp_path, start):
    with_passes(tmp_path / "output", *range(10))
    with_passes(tmp_path / "elsewhere", 0)
    (tmp_path / "elsewhere" / "0" / "checkpoint.json").touch()
    entry.set_train_epochs(3)
    entry.set_checkpoint_dir(None if start is None else tmp_path / start)
    with pytest.raises(ConfigError, match=r"output, got passes 0 to 9; nothing was trained.*empty"):
        entry.train()
    assert not calls


def test_a_training_may_go_on_in_its_model_save_dir(entry, calls, tmp_path, monkeypatch):
    with_passes(tmp_path / "output", 0, 1, 2)
    (tmp_path / "output" / "2" / "checkpoint.json").touch()
    (tmp_path / "output" / f"3.{'a' * 32}.tmp").mkdir()
    monkeypatch.chdir(tmp_path)
    for number, start in enumerate([tmp_path / "output", "output", "output/2"]):
        entry.set_checkpoint_dir(start)
        entry.train()
        assert len(calls) == number + 1


@pytest.mark.parametrize(("start", "epochs"), [("output/1", 10), ("output", 2)])
def test_passes_that_a_training_would_leave_behind_its_own_are_refused(
    entry, calls, tmp_path, start, epochs
):
    with_passes(tmp_path / "output", 0, 1, 2, 3)
    (tmp_path / "output" / "1" / "checkpoint.json").touch()
    entry.set_train_epochs(epochs)
    entry.set_checkpoint_dir(tmp_path / start)
    with pytest.raises(ConfigError, match=r"up to 1 in .*output, got passes 2 to 3"):
        entry.train()
    assert not calls
