"""The settings of an ``Entry`` with the defaults of PLSC, and what its trainings report."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

from trainfeed.core.config import rank_variables
from trainfeed.errors import ConfigError
from trainfeed.files.stores import Location

if TYPE_CHECKING:
    from trainfeed.compat.plsc.models.base_model import BaseModel


# --- The folders that ``Entry.set_hdfs_info`` names, as locations of ``trainfeed.files.stores``

_SCHEME: Final = re.compile(r"[a-z][a-z0-9+.-]*://")
_USER: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]{0,255}")


@dataclass(frozen=True)
class HdfsFolders:
    """Where a training gets its first model from, and where its models go.

    Attributes:
        user: Name of the account.
        save: URI of the folder that models are uploaded to after the training; None for no upload.
        checkpoint: URI of the folder that a model is downloaded from before the training; None for
            no download.
    """

    user: str
    save: str | None = None
    checkpoint: str | None = None

    @property
    def is_named_by_environment(self) -> bool:
        """Whether the client takes the user from the environment, not from the URI."""
        return (self.save or self.checkpoint or "").startswith("hdfs://")


def hdfs_folders(
    fs_name: object, fs_ugi: object, fs_dir_for_save: object, fs_checkpoint_dir: object
) -> HdfsFolders:
    """Return the folders that the arguments of ``set_hdfs_info`` name.

    Raises:
        ValueError: An argument is missing or wrong; no message has a part of ``fs_ugi``.
    """
    base, user = _base(fs_name), _user(fs_ugi)
    if fs_dir_for_save is None and fs_checkpoint_dir is None:
        raise ValueError(
            "expected fs_dir_for_save, fs_checkpoint_dir or both, got neither; without them nothing"
            " is uploaded or downloaded"
        )
    return HdfsFolders(
        user,
        _uri("fs_dir_for_save", base, user, fs_dir_for_save),
        _uri("fs_checkpoint_dir", base, user, fs_checkpoint_dir),
    )


def _base(fs_name: object) -> str:
    if not isinstance(fs_name, str) or not fs_name or "@" in fs_name:
        raise ValueError(
            "expected fs_name as hdfs://host:port, webhdfs://host:port, file:// or host:port,"
            " without a user"
        )
    return fs_name if _SCHEME.match(fs_name) else f"hdfs://{fs_name}"


def _user(fs_ugi: object) -> str:
    user, comma, password = fs_ugi.partition(",") if isinstance(fs_ugi, str) else ("", "", "")
    if not comma or not password or not _USER.fullmatch(user):
        raise ValueError(
            "expected fs_ugi as 'user,password' with a name of letters, digits and _ . -; its"
            " value is not shown"
        )
    return user


def _uri(name: str, base: str, user: str, value: object) -> str | None:
    """Return a folder as a URI; a relative path starts in the user's home, as in Hadoop."""
    if value is None:
        return None
    if not isinstance(value, str) or not value or _SCHEME.match(value):
        raise ValueError(f"expected {name} as a path in fs_name, got {value!r:.200}")
    path = value if value.startswith("/") else f"/user/{user}/{value}"
    scheme, _, authority = base.partition("://")
    # WebHDFS gets the user with each request; the other client takes it from the environment.
    account = f"{user}@" if scheme == "webhdfs" else ""
    try:
        return Location.parse(f"{scheme}://{account}{authority.rstrip('/')}{path}").uri
    except ConfigError as error:
        raise ValueError(f"{name}: {error}") from None


# --- The settings of an ``Entry`` with the defaults of PLSC, as a value that no training changes

_RANK: Final = "PADDLE_TRAINER_ID"
_WORLD_SIZE: Final = "PADDLE_TRAINERS_NUM"
_GLOBAL_BATCH: Final = 1024


class LossType(StrEnum):
    """The head that turns an embedding into a loss; ``dist_…`` divides the classes over ranks."""

    SOFTMAX = "softmax"
    ARCFACE = "arcface"
    DIST_SOFTMAX = "dist_softmax"
    DIST_ARCFACE = "dist_arcface"

    @property
    def is_divided(self) -> bool:
        """Whether each rank holds the weights of a part of the classes only."""
        return self.value.startswith("dist_")


@dataclass(frozen=True)
class MixedPrecision:
    """The parameters of ``Entry.set_mixed_precision``.

    Attributes:
        use_fp16: Whether the training runs in mixed precision.
        init_loss_scaling: The first scale of the loss.
        incr_every_n_steps: Steps in a row with finite gradients before the scale grows.
        decr_every_n_nan_or_inf: Steps in a row with other gradients before the scale shrinks.
        incr_ratio: Factor by which the scale grows.
        decr_ratio: Factor by which the scale shrinks.
        use_dynamic_loss_scaling: Whether the scale changes at all.
        amp_lists: Lists of the operators that run in float16; None for those of the framework.
    """

    use_fp16: bool
    init_loss_scaling: float = 1.0
    incr_every_n_steps: int = 2000
    decr_every_n_nan_or_inf: int = 2
    incr_ratio: float = 2.0
    decr_ratio: float = 0.5
    use_dynamic_loss_scaling: bool = True
    amp_lists: Any = None


@dataclass(frozen=True)
class EntrySettings:
    """Every setting of an ``Entry``.

    Attributes:
        rank: Number of this process, from 0.
        world_size: Number of processes that train together.
        train_batch_size: Samples per batch and rank in training.
        test_batch_size: Samples per batch and rank in tests and predictions.
        val_targets: Names of the test sets: each is a folder below ``dataset_dir``.
        dataset_dir: Folder of the data of the default readers.
        train_image_num: Number of training images of all ranks together.
        num_classes: Number of classes; labels are from 0 to ``num_classes - 1``.
        image_shape: Shape of an image: channels, height, width.
        model: The network; None for the default model, ResNet50.
        emb_dim: Length of an embedding of the default model.
        train_epochs: Number of passes over the training data.
        warmup_epochs: Passes in which the learning rate grows from 0 to its first value.
        lr: Learning rate for 1,024 samples per step, see ``base_lr``.
        lr_steps: Steps after which the learning rate is multiplied by ``lr_decay_factor``.
        lr_decay_factor: Factor of the learning rate at each of ``lr_steps``.
        loss_type: The head.
        margin: Margin of ArcFace in radians.
        scale: Scale of ArcFace's logits.
        checkpoint_dir: Absolute folder of the checkpoint to continue from; None to start afresh.
        model_save_dir: Folder of the checkpoints of this training; None to save nothing.
        with_test: Whether each epoch ends with a test.
        log_period: Number of steps between two lines of the log.
        calc_acc: Whether a training computes the accuracy of its batches.
        mixed_precision: Parameters of mixed precision; None for float32.
        hdfs: Folders that models are downloaded from and uploaded to; None for neither.
        optimizer: Optimizer of Paddle; None for momentum of 0.9 with the rate above.
        distfc_param_attr: Attributes of the weights of the head; None for the defaults.
        distfc_bias_attr: Attributes of the bias of the head; None for the defaults.
    """

    rank: int = 0
    world_size: int = 1
    train_batch_size: int = 128
    test_batch_size: int = 120
    val_targets: tuple[str, ...] = ("lfw",)
    dataset_dir: Path = Path("train_data")
    train_image_num: int = 5822653
    num_classes: int = 85742
    image_shape: tuple[int, ...] = (3, 112, 112)
    model: BaseModel | None = None
    emb_dim: int = 512
    train_epochs: int = 120
    warmup_epochs: int = 0
    lr: float = 0.1
    lr_steps: tuple[int, ...] = (100000, 160000, 220000)
    lr_decay_factor: float = 0.1
    loss_type: LossType = LossType.DIST_ARCFACE
    margin: float = 0.5
    scale: float = 64.0
    checkpoint_dir: Path | None = None
    model_save_dir: Path | None = Path("output")
    with_test: bool = True
    log_period: int = 200
    calc_acc: bool = False
    mixed_precision: MixedPrecision | None = None
    hdfs: HdfsFolders | None = None
    optimizer: Any = field(default=None, repr=False)
    distfc_param_attr: Any = field(default=None, repr=False)
    distfc_bias_attr: Any = field(default=None, repr=False)

    @property
    def global_train_batch_size(self) -> int:
        """Samples per training step of all ranks together."""
        return self.train_batch_size * self.world_size

    @property
    def global_test_batch_size(self) -> int:
        """Samples per test step of all ranks together."""
        return self.test_batch_size * self.world_size

    @property
    def base_lr(self) -> float:
        """The learning rate of the first steps after the warm-up."""
        return self.lr * self.global_train_batch_size / _GLOBAL_BATCH


def rank_from_environ() -> tuple[int, int]:
    """Return rank and number of ranks from the variables that PaddlePaddle's launcher sets.

    Raises:
        ConfigError: A variable is no number, or the rank is not below the number of ranks.
    """
    found = {_RANK: "0", _WORLD_SIZE: "1", **rank_variables((_RANK, _WORLD_SIZE))}
    rank, world_size = (_number(name, found[name]) for name in (_RANK, _WORLD_SIZE))
    if rank >= world_size:
        raise ConfigError(
            f"expected {_RANK} from 0 to {world_size - 1}, because {_WORLD_SIZE} is {world_size},"
            f" got {rank}; start all ranks by one launcher"
        )
    return rank, world_size


def _number(name: str, text: str) -> int:
    least = 1 if name == _WORLD_SIZE else 0
    if not (text.isascii() and text.isdigit()) or int(text) < least:
        raise ConfigError(
            f"expected {name} to be a whole number from {least} on, got {text!r}; unset it for a"
            " training of one rank"
        )
    return int(text)


# --- The scale of the loss in mixed precision: good steps in a row let it grow, bad ones shrink it

_LEAST: Final = np.float32(1)


@dataclass(frozen=True)
class LossScale:
    """The scale before a step; ``after`` returns the scale before the next step.

    Attributes:
        rules: Parameters of the growth and the shrinking.
        scale: Factor of the loss, computed in float32 as the operator does.
        good_steps: Good steps in a row since the last change or bad step.
        bad_steps: Bad steps in a row since the last change or good step.
    """

    rules: MixedPrecision
    scale: np.float32
    good_steps: int = 0
    bad_steps: int = 0

    @classmethod
    def first(cls, rules: MixedPrecision) -> LossScale:
        """Return the scale before the first step."""
        return cls(rules, np.float32(rules.init_loss_scaling))

    def after(self, *, is_finite: bool) -> LossScale:
        """Return the scale after a step.

        Args:
            is_finite: Whether every gradient of the step is finite.
        """
        if not self.rules.use_dynamic_loss_scaling:
            return self
        return self._after_good() if is_finite else self._after_bad()

    def _after_good(self) -> LossScale:
        good = self.good_steps + 1
        if good < self.rules.incr_every_n_steps:
            return replace(self, good_steps=good, bad_steps=0)
        with np.errstate(over="ignore"):
            grown = self.scale * np.float32(self.rules.incr_ratio)
        return LossScale(self.rules, grown if np.isfinite(grown) else self.scale)

    def _after_bad(self) -> LossScale:
        bad = self.bad_steps + 1
        if bad < self.rules.decr_every_n_nan_or_inf:
            return replace(self, good_steps=0, bad_steps=bad)
        shrunk = self.scale * np.float32(self.rules.decr_ratio)
        return LossScale(self.rules, max(_LEAST, shrunk))


# --- The result of a training, a test or a prediction of an ``Entry``


@dataclass(frozen=True)
class Report:
    """The result of a training, a test or a prediction.

    Attributes:
        epochs: Passes over the training data that this call trained.
        steps: Steps that this call trained.
        losses: The loss of each of these steps.
        accuracies: Name of a test set → accuracy, from 0 to 1, of the last test.
        checkpoint: Folder of the newest checkpoint; None if none was saved.
        embeddings: Of a prediction: float32 of shape ``(n, emb_dim)``; None otherwise.
    """

    epochs: int = 0
    steps: int = 0
    losses: tuple[float, ...] = ()
    accuracies: Mapping[str, float] = field(default_factory=dict)
    checkpoint: Path | None = None
    embeddings: NDArray[Any] | None = None
