"""A data set folder to break, one change at a time."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from trainfeed.errors import SpecError
from trainfeed.specification import DatasetSpec, load_spec

GOOD = Path(__file__).with_name("clicks.yaml").read_text()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The folder of a data set that is right."""
    path = tmp_path / "clicks"
    path.mkdir()
    (path / "dataset.yaml").write_text(GOOD)
    (path / "preprocess.py").touch()
    (path / "train.py").touch()
    return path


@pytest.fixture
def changed(folder: Path) -> Callable[[str, str], DatasetSpec]:
    """Loads the right specification with one text replaced."""

    def load(old: str, new: str) -> DatasetSpec:
        assert old in GOOD
        (folder / "dataset.yaml").write_text(GOOD.replace(old, new))
        return load_spec(folder)

    return load


@pytest.fixture
def problem(changed: Callable[[str, str], DatasetSpec], folder: Path) -> Callable[[str, str], str]:
    """What a change is refused with, the file's path left out."""

    def message(old: str, new: str) -> str:
        with pytest.raises(SpecError) as error:
            changed(old, new)
        return str(error.value).replace(f"{folder / 'dataset.yaml'}:", "")

    return message
