"""The setters of PLSC's ``Entry``: each checks its value before it changes anything.

A refused value raises ValueError as in the original and leaves the setting as it was. Attributes
that are no settings cannot be assigned, so a misspelt name is an error too.
"""

from __future__ import annotations

from trainfeed.compat.plsc._checked_values import (
    flag,
    folder,
    real,
    shape,
    steps,
    target_names,
)
from trainfeed.compat.plsc._hdfs_folders import hdfs_folders
from trainfeed.compat.plsc._input_info import image_shape_of_inputs
from trainfeed.compat.plsc._network_setters import NetworkSetters
from trainfeed.whole_numbers import whole_value

__all__ = ["EntrySetters"]


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
