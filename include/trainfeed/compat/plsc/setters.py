"""The setters of PLSC's ``Entry``: each checks its value before it changes anything."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from inspect import signature
from itertools import pairwise
from pathlib import Path
from typing import Any

from trainfeed.compat.paddle.fluid.optimizer import Optimizer
from trainfeed.compat.plsc.models.base_model import BaseModel
from trainfeed.compat.plsc.settings import (
    EntrySettings,
    LossType,
    MixedPrecision,
    hdfs_folders,
    rank_from_environ,
)
from trainfeed.core.datacenters import local_source, local_target
from trainfeed.core.whole_numbers import whole_value

# --- Checks of the values that setters get; each returns the value in the type of the settings


def refused(expected: str, value: object) -> ValueError:
    """Return the error of a value that a setting does not take."""
    return ValueError(f"expected {expected}, got {value!r:.100}; the setting stays as it was")


def flag(name: str, value: object) -> bool:
    """Return a truth value.

    Raises:
        ValueError: ``value`` is neither True nor False.
    """
    if not isinstance(value, bool):
        raise refused(f"{name} to be True or False", value)
    return value


def real(name: str, value: object, *, least: float = 0.0, above: float | None = None) -> float:
    """Return a finite number.

    Args:
        name: Name of the argument, for the message.
        value: The number.
        least: The smallest allowed number.
        above: Number that the value must exceed; replaces ``least``.

    Raises:
        ValueError: ``value`` is no finite number, or too small.
    """
    bound = f"from {least:g} on" if above is None else f"above {above:g}"
    number = _as_float(value)
    is_large_enough = number >= least if above is None else number > above
    if not (math.isfinite(number) and is_large_enough):
        raise refused(f"{name} to be a finite number {bound}", value)
    return number


def folder(name: str, value: object, *, writes: bool = False) -> Path:
    """Return a folder as an absolute path; the folder need not exist yet.

    Args:
        name: Name of the setting, for the message.
        value: A path, also ``pfs://…``.
        writes: Whether files will be written there.

    Raises:
        ValueError: ``value`` is no path, or empty.
    """
    if not isinstance(value, str | os.PathLike):
        raise refused(f"{name} to be the path of a folder", value)
    path = os.fspath(local_target(value) if writes else local_source(value))
    if not isinstance(path, str) or not path or "\0" in path:
        raise refused(f"{name} to be the path of a folder", value)
    return Path(path).absolute()


def steps(name: str, value: object) -> tuple[int, ...]:
    """Return numbers of steps in ascending order.

    Raises:
        ValueError: ``value`` is no list, or its numbers are not ascending from 1 on.
    """
    if not isinstance(value, list | tuple):
        raise refused(f"{name} to be a list of steps", value)
    numbers = tuple(whole_value(f"each step of {name}", number, 1) for number in value)
    if any(later <= earlier for earlier, later in pairwise(numbers)):
        raise ValueError(f"expected {name} in ascending order, got {list(numbers)}")
    return numbers


def target_names(value: object) -> tuple[str, ...]:
    """Return the names of test sets, from a list or a text with commas.

    Raises:
        ValueError: There is no name, or a name is not that of a folder.
    """
    names = value.split(",") if isinstance(value, str) else value
    if not isinstance(names, Iterable):
        raise refused("targets as a list of names", value)
    found = tuple(name.strip() if isinstance(name, str) else name for name in names)
    bad = [name for name in found if not _is_folder_name(name)]
    if bad or not found or len(set(found)) < len(found):
        raise refused("targets to be different names of folders below the dataset_dir", value)
    return found


def shape(name: str, value: object) -> tuple[int, ...]:
    """Return the shape of an image, such as ``(3, 112, 112)``.

    Raises:
        ValueError: ``value`` is no sequence of whole numbers from 1 on.
    """
    if not isinstance(value, list | tuple) or not value:
        raise refused(f"{name} as a shape such as (3, 112, 112): channels, height, width", value)
    return tuple(whole_value(f"each number of {name}", number, 1) for number in value)


def takes_three(method: Callable[..., Any]) -> bool:
    """Return whether a method can be called with three arguments by position."""
    try:
        signature(method).bind(None, None, None)
    except TypeError:
        return False
    return True


def _as_float(value: object) -> float:
    if isinstance(value, bool) or not hasattr(type(value), "__float__"):
        return math.nan
    try:
        return float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        return math.nan


def _is_folder_name(name: Any) -> bool:
    return (
        isinstance(name, str)
        and name not in {"", ".", ".."}
        and not any(character in name for character in "/\\\0")
    )


# --- ``set_input_info``: the variables of a batch, one of which gives the shape of an image


def image_shape_of_inputs(inputs: object) -> tuple[int, ...]:
    """Return the shape of the image among the variables that ``set_input_info`` gets.

    Raises:
        ValueError: ``inputs`` is not one image in float32 and one label in int64.
    """
    rows = [_input(value) for value in _list_of_inputs(inputs)]
    images = [row for row in rows if row["name"] != "label"]
    labels = [row for row in rows if row["name"] == "label"]
    if len(images) != 1 or len(labels) != 1:
        raise refused(
            "one variable called 'label' and one other, the image, because build_network gets one"
            " input",
            [row["name"] for row in rows],
        )
    (image,), (label,) = images, labels
    _require_dtype(image, "float32")
    _require_dtype(label, "int64")
    if _without_batch(label["shape"]) not in {(), (1,)}:
        raise refused("a label of shape [-1, 1]", label["shape"])
    return shape(f"the shape of {image['name']!r}", _without_batch(image["shape"]))


def _list_of_inputs(inputs: object) -> Sequence[Any]:
    if not isinstance(inputs, list | tuple):
        raise refused(
            "a list of variables such as"
            " {'name': 'image', 'shape': [-1, 3, 112, 112], 'dtype': 'float32'}",
            inputs,
        )
    return inputs


def _input(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict) or value.keys() != {"name", "shape", "dtype"}:
        raise refused("a variable with name, shape and dtype", value)
    if not isinstance(value["name"], str) or not isinstance(value["shape"], list | tuple):
        raise refused("a variable whose name is a text and whose shape is a list", value)
    return value


def _without_batch(numbers: Sequence[Any]) -> tuple[Any, ...]:
    """Return a shape without a first number of -1 or None, which stands for the batch."""
    return tuple(numbers[1:] if numbers and numbers[0] in {-1, None} else numbers)


def _require_dtype(row: dict[str, Any], dtype: str) -> None:
    if row["dtype"] != dtype:
        raise refused(f"{row['name']!r} in {dtype}", row["dtype"])


# --- The setters of what an ``Entry`` trains: network, head, optimizer, mixed precision


class NetworkSetters:
    """The settings of an entry, and the methods that change its network and optimizer."""

    __slots__ = ("_settings",)

    def __init__(self) -> None:
        rank, world_size = rank_from_environ()
        self._settings = EntrySettings(rank=rank, world_size=world_size)

    @property
    def settings(self) -> EntrySettings:
        """The settings as they are now."""
        return self._settings

    @property
    def margin(self) -> float:
        """Margin of ArcFace in radians; assignable."""
        return self._settings.margin

    @margin.setter
    def margin(self, value: float) -> None:
        self._set(margin=real("margin", value))

    @property
    def scale(self) -> float:
        """Scale of ArcFace's logits; assignable."""
        return self._settings.scale

    @scale.setter
    def scale(self, value: float) -> None:
        self._set(scale=real("scale", value, above=0))

    def set_loss_type(self, loss_type: object) -> None:
        """Set the head: softmax, arcface, dist_softmax or dist_arcface."""
        names = [kind.value for kind in LossType]
        if not isinstance(loss_type, str) or loss_type not in names:
            raise refused(f"loss_type among {', '.join(names)}", loss_type)
        self._set(loss_type=LossType(loss_type))

    def set_model(self, model: object) -> None:
        """Set the network: an object of a class that overrides ``BaseModel.build_network``."""
        if not isinstance(model, BaseModel):
            raise refused(
                "an object of a class derived from trainfeed.compat.plsc.models.BaseModel", model
            )
        if type(model).build_network is BaseModel.build_network:
            raise refused("a class that overrides build_network(input, label, is_train)", model)
        if not takes_three(model.build_network):
            raise refused(
                "build_network with the arguments input, label and is_train",
                str(signature(model.build_network)),
            )
        self._set(model=model)

    def set_optimizer(self, optimizer: Any) -> None:
        """Set the optimizer, in place of momentum with the rate of the settings.

        Args:
            optimizer: Of ``trainfeed.compat.paddle.fluid.optimizer``, or a function from a list of
                parameters to an optimizer of ``paddle.optimizer``: the parameters do not exist yet.
        """
        is_made = hasattr(optimizer, "minimize") or isinstance(optimizer, type)
        if not isinstance(optimizer, Optimizer) and (is_made or not callable(optimizer)):
            raise refused(
                "an optimizer of trainfeed.compat.paddle.fluid.optimizer, or a function that makes"
                " one of paddle.optimizer from a list of parameters",
                optimizer,
            )
        self._set(optimizer=optimizer)

    def set_distfc_attr(self, param_attr: Any = None, bias_attr: Any = None) -> None:
        """Set the attributes of the weights and of the bias of the head; None for the defaults."""
        for name, value in (("param_attr", param_attr), ("bias_attr", bias_attr)):
            if value is not None and not hasattr(value, "initializer"):
                raise refused(f"{name} as a ParamAttr", value)
        self._set(distfc_param_attr=param_attr, distfc_bias_attr=bias_attr)

    def set_mixed_precision(  # noqa: PLR0913, PLR0917 (the original's arguments)
        self,
        use_fp16: bool,
        init_loss_scaling: float = 1.0,
        incr_every_n_steps: int = 2000,
        decr_every_n_nan_or_inf: int = 2,
        incr_ratio: float = 2.0,
        decr_ratio: float = 0.5,
        use_dynamic_loss_scaling: bool = True,
        amp_lists: Any = None,
    ) -> None:
        """Set the parameters of mixed precision; see ``MixedPrecision``."""
        self._set(
            mixed_precision=MixedPrecision(
                use_fp16=flag("use_fp16", use_fp16),
                init_loss_scaling=real("init_loss_scaling", init_loss_scaling, above=0),
                incr_every_n_steps=whole_value("incr_every_n_steps", incr_every_n_steps, 1),
                decr_every_n_nan_or_inf=whole_value(
                    "decr_every_n_nan_or_inf", decr_every_n_nan_or_inf, 1
                ),
                incr_ratio=real("incr_ratio", incr_ratio, above=1),
                decr_ratio=_shrinking(decr_ratio),
                use_dynamic_loss_scaling=flag("use_dynamic_loss_scaling", use_dynamic_loss_scaling),
                amp_lists=amp_lists,
            )
        )

    def _set(self, **values: Any) -> None:
        self._settings = replace(self._settings, **values)


def _shrinking(value: object) -> float:
    ratio = real("decr_ratio", value, above=0)
    if ratio >= 1:
        raise refused("decr_ratio below 1", value)
    return ratio


# --- The setters of PLSC's ``Entry``: each checks its value before it changes anything


class EntrySetters(NetworkSetters):
    """The settings of an entry, and the methods that change them."""

    __slots__ = ()

    @property
    def train_batch_size(self) -> int:
        """Samples per batch and rank in training."""
        return self._settings.train_batch_size

    @property
    def test_batch_size(self) -> int:
        """Samples per batch and rank in tests and predictions."""
        return self._settings.test_batch_size

    @property
    def lr(self) -> float:
        """Learning rate for 1,024 samples per step; assignable."""
        return self._settings.lr

    @lr.setter
    def lr(self, value: float) -> None:
        self._set(lr=real("lr", value, above=0))

    def set_val_targets(self, targets: object) -> None:
        """Set the test sets: names of folders below the ``dataset_dir``, as list or with commas."""
        self._set(val_targets=target_names(targets))

    def set_train_batch_size(self, batch_size: int) -> None:
        """Set the samples per batch and rank in training."""
        self._set(train_batch_size=whole_value("train_batch_size", batch_size, 1))

    def set_test_batch_size(self, batch_size: int) -> None:
        """Set the samples per batch and rank in tests and predictions."""
        self._set(test_batch_size=whole_value("test_batch_size", batch_size, 1))

    def set_train_image_num(self, num: int) -> None:
        """Set the number of training images of all ranks together, for warm-up epochs."""
        self._set(train_image_num=whole_value("train_image_num", num, 1))

    def set_class_num(self, num: int) -> None:
        """Set the number of classes."""
        self._set(num_classes=whole_value("class_num", num, 1))

    def set_emb_size(self, size: int) -> None:
        """Set the length of an embedding of the default model."""
        self._set(emb_dim=whole_value("emb_size", size, 1))

    def set_train_epochs(self, num: int) -> None:
        """Set the number of passes over the training data."""
        self._set(train_epochs=whole_value("train_epochs", num, 1))

    def set_warmup_epochs(self, num: int) -> None:
        """Set the number of passes in which the learning rate grows to its first value."""
        self._set(warmup_epochs=whole_value("warmup_epochs", num, 0))

    def set_step_boundaries(self, boundaries: object) -> None:
        """Set the steps after which the learning rate is multiplied by the decay factor."""
        self._set(lr_steps=steps("boundaries", boundaries))

    def set_lr_decay_factor(self, factor: float) -> None:
        """Set the factor of the learning rate at each boundary."""
        self._set(lr_decay_factor=real("lr_decay_factor", factor, above=0))

    def set_log_period(self, period: int) -> None:
        """Set the number of steps between two lines of the log."""
        self._set(log_period=whole_value("log_period", period, 1))

    def set_calc_acc(self, calc: bool) -> None:
        """Set whether a training computes the accuracy of its batches."""
        self._set(calc_acc=flag("calc_acc", calc))

    def set_with_test(self, with_test: bool) -> None:
        """Set whether each epoch ends with a test."""
        self._set(with_test=flag("with_test", with_test))

    def set_image_shape(self, image_shape: object) -> None:
        """Set the shape of an image: channels, height, width."""
        self._set(image_shape=shape("image_shape", image_shape))

    def set_input_info(self, inputs: object) -> None:
        """Set the shape of an image by the variables of a batch: the image, and ``label``."""
        self._set(image_shape=image_shape_of_inputs(inputs))

    def set_dataset_dir(self, directory: object) -> None:
        """Set the folder of the data of the default readers."""
        self._set(dataset_dir=folder("dataset_dir", directory))

    def set_model_save_dir(self, directory: object) -> None:
        """Set the folder of the checkpoints of this training; None saves nothing."""
        path = None if directory is None else folder("model_save_dir", directory, writes=True)
        self._set(model_save_dir=path)

    def set_checkpoint_dir(self, directory: object) -> None:
        """Set the folder of the checkpoint to continue from; None or ``""`` starts afresh."""
        is_unset = directory is None or directory == ""
        path = None if is_unset else folder("checkpoint_dir", directory)
        self._set(checkpoint_dir=path)

    def set_hdfs_info(
        self,
        fs_name: str,
        fs_ugi: str,
        fs_dir_for_save: str | None = None,
        fs_checkpoint_dir: str | None = None,
    ) -> None:
        """Set the folders that a model is downloaded from, and that models are uploaded to.

        Args:
            fs_name: The file system: ``hdfs://host:port``, ``webhdfs://host:port``, ``file://``,
                or ``host:port`` for the first.
            fs_ugi: ``user,password``; the password is not kept, because HDFS asks for none.
            fs_dir_for_save: Folder for ``model_save_dir`` after the training; a relative path
                starts at ``/user/<user>``.
            fs_checkpoint_dir: Folder to download to ``checkpoint_dir`` before the training.
        """
        self._set(hdfs=hdfs_folders(fs_name, fs_ugi, fs_dir_for_save, fs_checkpoint_dir))
