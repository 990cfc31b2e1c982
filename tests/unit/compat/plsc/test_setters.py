"""Setters of an entry: PLSC's defaults, values that are taken, and values that change nothing."""

from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from trainfeed.compat.paddle.fluid.optimizer import SGD
from trainfeed.compat.plsc.entry import Entry
from trainfeed.compat.plsc.models import BaseModel
from trainfeed.compat.plsc.settings import EntrySettings, LossType, MixedPrecision
from trainfeed.errors import ConfigError


class Network(BaseModel):
    def build_network(self, *variables):
        return variables[0]


class LaterNetwork(BaseModel):
    """A network for later versions of PLSC, whose method has no label."""

    def build_network(self, image, is_train):
        return image if is_train else None


# The table of defaults of PLSC.
DEFAULTS = {
    "train_batch_size": 128,
    "test_batch_size": 120,
    "val_targets": ("lfw",),
    "dataset_dir": Path("train_data"),
    "train_image_num": 5822653,
    "model": None,
    "train_epochs": 120,
    "checkpoint_dir": None,
    "with_test": True,
    "log_period": 200,
    "model_save_dir": Path("output"),
    "warmup_epochs": 0,
    "loss_type": "dist_arcface",
    "num_classes": 85742,
    "image_shape": (3, 112, 112),
    "margin": 0.5,
    "scale": 64.0,
    "lr": 0.1,
    "lr_steps": (100000, 160000, 220000),
    "emb_dim": 512,
    "lr_decay_factor": 0.1,
}
IMAGE = {"name": "image", "shape": [-1, 3, 8, 8], "dtype": "float32"}
LABEL = {"name": "label", "shape": [-1, 1], "dtype": "int64"}
ATTRIBUTE = SimpleNamespace(initializer=None)
OPTIMIZER = SGD(0.1)
# Paddle's own optimizers have this method, and need their parameters when they are made.
MADE = SimpleNamespace(minimize=print)
NETWORK = Network()

# Setter, argument → attribute of the settings and its value.
TAKEN = [
    ("set_val_targets", "lfw,cfp_fp", "val_targets", ("lfw", "cfp_fp")),
    ("set_val_targets", ["lfw"], "val_targets", ("lfw",)),
    ("set_train_batch_size", np.int64(32), "train_batch_size", 32),
    ("set_test_batch_size", 16, "test_batch_size", 16),
    ("set_train_image_num", 1797, "train_image_num", 1797),
    ("set_class_num", 10, "num_classes", 10),
    ("set_emb_size", 64, "emb_dim", 64),
    ("set_train_epochs", 2, "train_epochs", 2),
    ("set_warmup_epochs", 1, "warmup_epochs", 1),
    ("set_step_boundaries", [10, 20], "lr_steps", (10, 20)),
    ("set_step_boundaries", [], "lr_steps", ()),
    ("set_lr_decay_factor", 0.5, "lr_decay_factor", 0.5),
    ("set_log_period", 1, "log_period", 1),
    ("set_calc_acc", True, "calc_acc", True),
    ("set_with_test", False, "with_test", False),
    ("set_image_shape", [3, 8, 8], "image_shape", (3, 8, 8)),
    ("set_input_info", [IMAGE, LABEL], "image_shape", (3, 8, 8)),
    ("set_dataset_dir", "/data", "dataset_dir", Path("/data")),
    ("set_model_save_dir", "out", "model_save_dir", Path.cwd() / "out"),
    ("set_model_save_dir", None, "model_save_dir", None),
    ("set_checkpoint_dir", Path("old"), "checkpoint_dir", Path.cwd() / "old"),
    ("set_checkpoint_dir", "", "checkpoint_dir", None),
    ("set_loss_type", "softmax", "loss_type", LossType.SOFTMAX),
    ("set_model", NETWORK, "model", NETWORK),
    ("set_optimizer", OPTIMIZER, "optimizer", OPTIMIZER),
    ("set_distfc_attr", ATTRIBUTE, "distfc_param_attr", ATTRIBUTE),
]

REFUSED = [
    *[("set_val_targets", value) for value in (7, "", "lfw,", ["a/b"], [".."], ["x", "x"], [1])],
    *[("set_train_batch_size", value) for value in (0, -1, 1.5, "8", True, None)],
    ("set_test_batch_size", 0),
    ("set_train_image_num", 0),
    ("set_class_num", 0),
    ("set_emb_size", 0),
    ("set_train_epochs", 0),
    ("set_warmup_epochs", -1),
    *[("set_step_boundaries", value) for value in (7, "1,2", [2, 1], [1, 1], [0], [1.5], None)],
    *[("set_lr_decay_factor", value) for value in (0, -1, float("nan"), float("inf"), "x", True)],
    ("set_log_period", 0),
    ("set_calc_acc", 1),
    ("set_with_test", "no"),
    *[("set_image_shape", value) for value in (112, [], [3, 0, 8], "3,8,8", [3, 8.0, 8])],
    *[
        ("set_input_info", value)
        for value in (
            IMAGE,
            [IMAGE],
            [LABEL],
            [IMAGE, IMAGE, LABEL],
            [{**IMAGE, "dtype": "uint8"}, LABEL],
            [IMAGE, {**LABEL, "dtype": "float32"}],
            [IMAGE, {**LABEL, "shape": [-1, 2]}],
            [{"name": "image"}, LABEL],
            [{**IMAGE, "shape": 3}, LABEL],
        )
    ],
    *[("set_dataset_dir", value) for value in (None, "", 7, b"x", "a\0b")],
    ("set_model_save_dir", ""),
    ("set_checkpoint_dir", 7),
    *[("set_loss_type", value) for value in ("Softmax", "triplet", None, 1)],
    *[("set_model", value) for value in (None, Network, BaseModel(), LaterNetwork(), object())],
    *[("set_optimizer", value) for value in (None, 0.1, "Momentum", SGD, MADE)],
    *[("set_distfc_attr", value) for value in (0.1, "x")],
]


def test_the_defaults_are_those_of_plsc():
    settings = Entry().settings
    assert {name: getattr(settings, name) for name in DEFAULTS} == DEFAULTS


@pytest.mark.parametrize(("setter", "value", "name", "expected"), TAKEN)
def test_a_setter_changes_its_setting_only(setter, value, name, expected):
    entry = Entry()
    getattr(entry, setter)(value)
    changed = vars(entry.settings)
    assert changed == {**vars(EntrySettings()), name: expected}


@pytest.mark.parametrize(("setter", "value"), REFUSED)
def test_a_refused_value_changes_nothing(setter, value):
    entry = Entry()
    before = entry.settings
    with pytest.raises(ValueError, match=r"expected .+, got"):
        getattr(entry, setter)(value)
    assert entry.settings is before


def test_every_setter_of_plsc_is_here():
    names = {name for name in dir(Entry) if name.startswith("set_")}
    tested = {setter for setter, *_ in TAKEN} | {"set_mixed_precision", "set_hdfs_info"}
    assert names - {"set_train_reader", "set_test_reader", "set_predict_reader"} == tested
    assert tested == {setter for setter, _ in REFUSED} | {"set_mixed_precision", "set_hdfs_info"}


def test_the_bias_of_the_head_is_set_too():
    entry = Entry()
    entry.set_distfc_attr(bias_attr=ATTRIBUTE)
    assert entry.settings.distfc_bias_attr is ATTRIBUTE
    assert entry.settings.distfc_param_attr is None


@pytest.mark.parametrize("name", ["lr", "margin", "scale"])
def test_numbers_without_a_setter_are_assigned_and_checked(name):
    entry = Entry()
    setattr(entry, name, 2)
    assert getattr(entry, name) == getattr(entry.settings, name) == 2.0
    with pytest.raises(ValueError, match=name):
        setattr(entry, name, -1)
    assert getattr(entry, name) == 2.0


def test_a_misspelt_attribute_is_an_error():
    with pytest.raises(AttributeError):
        Entry().trian_reader = print


def test_rank_and_global_batch_come_from_the_environment(monkeypatch):
    monkeypatch.setenv("PADDLE_TRAINER_ID", "3")
    monkeypatch.setenv("PADDLE_TRAINERS_NUM", "8")
    entry = Entry()
    entry.set_train_batch_size(64)
    settings = entry.settings
    assert (settings.rank, settings.world_size) == (3, 8)
    assert settings.global_train_batch_size == 512
    assert settings.global_test_batch_size == 960
    assert settings.base_lr == pytest.approx(0.1 * 512 / 1024)


@pytest.mark.parametrize(
    ("rank", "world_size"), [("2", "2"), ("x", "2"), ("-1", "2"), ("0", "0"), ("0", "1.0")]
)
def test_a_rank_that_cannot_be_is_refused(monkeypatch, rank, world_size):
    monkeypatch.setenv("PADDLE_TRAINER_ID", rank)
    monkeypatch.setenv("PADDLE_TRAINERS_NUM", world_size)
    with pytest.raises(ConfigError, match="PADDLE_TRAINER"):
        Entry()


def test_mixed_precision_has_eight_parameters_with_the_defaults_of_plsc():
    entry = Entry()
    entry.set_mixed_precision(True)
    assert entry.settings.mixed_precision == MixedPrecision(
        use_fp16=True,
        init_loss_scaling=1.0,
        incr_every_n_steps=2000,
        decr_every_n_nan_or_inf=2,
        incr_ratio=2.0,
        decr_ratio=0.5,
        use_dynamic_loss_scaling=True,
        amp_lists=None,
    )


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("use_fp16", 1),
        ("init_loss_scaling", 0),
        ("init_loss_scaling", float("inf")),
        ("incr_every_n_steps", 0),
        ("incr_every_n_steps", 1.5),
        ("decr_every_n_nan_or_inf", 0),
        ("incr_ratio", 1.0),
        ("incr_ratio", "2"),
        ("decr_ratio", 0),
        ("decr_ratio", 1.0),
        ("use_dynamic_loss_scaling", None),
    ],
)
def test_a_wrong_parameter_of_mixed_precision_changes_nothing(name, value):
    entry = Entry()
    with pytest.raises(ValueError, match=name):
        entry.set_mixed_precision(**{"use_fp16": True, name: value})
    assert entry.settings.mixed_precision is None
