"""Options of ``trainfeed train``: another launcher than that of dataset.yaml, and a dry run."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from enum import StrEnum
from typing import Any

from ruamel.yaml import YAML

from trainfeed.cli._printing import print_json
from trainfeed.config import Environment
from trainfeed.errors import ConfigError
from trainfeed.intervals import Interval
from trainfeed.specification import DatasetSpec, train_contradictions
from trainfeed.training.launch import render

__all__ = ["LauncherKind", "print_rendered", "with_launcher"]


class LauncherKind(StrEnum):
    """The values of ``train.launcher``."""

    LOCAL = "local"
    INDEXED_JOB = "indexed-job"
    PYTORCH_JOB = "pytorch-job"
    PADDLE_JOB = "paddle-job"
    TRAIN_JOB = "train-job"
    JOB_SET = "job-set"


def with_launcher(spec: DatasetSpec, kind: LauncherKind | None) -> DatasetSpec:
    """Return the specification with another launcher.

    Raises:
        ConfigError: The data set has no training, or one that this launcher cannot run.
    """
    if kind is None:
        return spec
    if spec.train is None:
        raise ConfigError(f"data set {spec.name!r} has no training; add 'train' to dataset.yaml")
    train = spec.train.model_copy(update={"launcher": kind.value})
    for name, text in train_contradictions(train):
        raise ConfigError(f"--launcher {kind.value}: train{'.' if name else ''}{name}: {text}")
    return spec.model_copy(update={"train": train})


def print_rendered(
    spec: DatasetSpec, env: Environment, chosen: Sequence[Interval], *, as_json: bool
) -> None:
    """Print the objects that launches would make, as YAML or as a JSON list; none are made."""
    found: list[Any] = [each for interval in chosen for each in render(spec, env, interval)]
    plain = json.loads(json.dumps(found))
    if as_json:
        print_json(plain)
        return
    yaml = YAML(typ="safe", pure=True)
    yaml.default_flow_style = False
    yaml.dump_all(plain, sys.stdout)
