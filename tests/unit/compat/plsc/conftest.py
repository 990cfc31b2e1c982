"""An engine that needs no framework: it takes notes of its calls, and saves a file."""

import numpy as np
import pytest

from trainfeed.compat.plsc import engine
from trainfeed.compat.plsc.entry import Entry
from trainfeed.compat.plsc.settings import Report

SHAPE = (3, 2, 2)


@pytest.fixture(autouse=True)
def _one_rank(monkeypatch):
    for name in ("PADDLE_TRAINER_ID", "PADDLE_TRAINERS_NUM", "HADOOP_USER_NAME"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def calls(monkeypatch):
    """The calls of the engine: name, settings, labels of all batches, names in checkpoint_dir."""
    found = []

    def called(name):
        def engine(settings, readers=None):
            labels = []
            if readers is not None and readers.train is not None:
                labels = [batch.labels.tolist() for batch in readers.train.batches(0)]
            folder = settings.checkpoint_dir
            start = [] if folder is None else sorted(p.name for p in folder.iterdir())
            found.append((name, settings, labels, start))
            if name == "train" and settings.model_save_dir is not None:
                (settings.model_save_dir / "0").mkdir(exist_ok=True)
                (settings.model_save_dir / "0" / "network.npz").write_bytes(b"model")
            return Report(epochs=1)

        return engine

    for name in ("train", "test", "predict", "convert_for_prediction"):
        monkeypatch.setattr(engine, name, called(name))
    return found


@pytest.fixture
def entry(tmp_path):
    """An entry that is ready to train on ten samples."""
    made = Entry()
    made.set_image_shape(SHAPE)
    made.set_class_num(10)
    made.set_loss_type("softmax")
    made.set_train_batch_size(4)
    made.set_with_test(False)
    made.set_model_save_dir(tmp_path / "output")
    made.train_reader = lambda: ((np.zeros(SHAPE, np.float32), n) for n in range(10))
    return made
