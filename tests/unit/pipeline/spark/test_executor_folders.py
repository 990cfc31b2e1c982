"""Tasks of executors name the folder that failed them."""

from __future__ import annotations

import pytest

from trainfeed.errors import StorageError
from trainfeed.files.stores import posix
from trainfeed.pipeline.spark import executor_tasks


def test_a_folder_of_an_executor_that_is_gone_is_named_and_not_the_root(tmp_path, monkeypatch):
    gone = tmp_path / "gone"
    monkeypatch.setattr(executor_tasks, "local_folder_of_executor", lambda: str(gone))
    with (
        pytest.raises(StorageError, match=str(gone)),
        posix.map_errors(tmp_path / "root"),
        executor_tasks._scratch(),
    ):
        pass
