"""Options of ``trainfeed train``: another launcher than that of dataset.yaml, and a dry run."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from typing import Any

from ruamel.yaml import YAML

from trainfeed.cli._printing import print_json
from trainfeed.config import Environment
from trainfeed.dataset.tag_files import Tag
from trainfeed.errors import ConfigError
from trainfeed.intervals import Interval
from trainfeed.specification import DatasetSpec, LauncherName, train_contradictions
from trainfeed.training.launch import render

__all__ = ["print_rendered", "with_launcher"]


def with_launcher(spec: DatasetSpec, kind: LauncherName | None) -> DatasetSpec:
    """Return the specification with another launcher.

    Raises:
        ConfigError: The data set has no training, or one that this launcher cannot run.
    """
    if kind is None:
        return spec
    if spec.train is None:
        raise ConfigError(f"data set {spec.name!r} has no training; add 'train' to dataset.yaml")
    train = spec.train.model_copy(update={"launcher": kind})
    for name, text in train_contradictions(train):
        raise ConfigError(f"--launcher {kind}: train{'.' if name else ''}{name}: {text}")
    return spec.model_copy(update={"train": train})


def print_rendered(
    spec: DatasetSpec,
    env: Environment,
    chosen: Sequence[Interval],
    tag: Tag | None = None,
    *,
    as_json: bool,
) -> None:
    """Print the objects that launches would make, as YAML or as a JSON list; none are made."""
    found: list[Any] = [each for interval in chosen for each in render(spec, env, interval, tag)]
    plain = json.loads(json.dumps(found))
    if as_json:
        print_json(plain)
        return
    yaml = YAML(typ="safe", pure=True)
    yaml.default_flow_style = False
    yaml.dump_all(plain, sys.stdout)
