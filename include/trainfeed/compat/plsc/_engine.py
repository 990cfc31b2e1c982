"""Training, tests and predictions with PaddlePaddle."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trainfeed.errors import ConfigError

if TYPE_CHECKING:
    from trainfeed.compat.plsc._readers_of_entry import Readers
    from trainfeed.compat.plsc._report import Report
    from trainfeed.compat.plsc._settings import EntrySettings

__all__ = ["convert_for_prediction", "predict", "test", "train"]


def train(settings: EntrySettings, readers: Readers) -> Report:  # noqa: ARG001
    """Train, and test after each epoch if ``settings.with_test`` says so."""
    raise ConfigError("expected an engine, got none")


def test(settings: EntrySettings, readers: Readers) -> Report:  # noqa: ARG001
    """Measure the accuracy of the model of ``settings.checkpoint_dir`` on each test reader."""
    raise ConfigError("expected an engine, got none")


def predict(settings: EntrySettings, readers: Readers) -> Report:  # noqa: ARG001
    """Compute the embedding of each image of the predict reader."""
    raise ConfigError("expected an engine, got none")


def convert_for_prediction(settings: EntrySettings) -> Report:  # noqa: ARG001
    """Save the network of ``settings.checkpoint_dir`` without its head, for prediction."""
    raise ConfigError("expected an engine, got none")
