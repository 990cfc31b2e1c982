"""Makes the folder of a new data set, complete or not at all."""

from __future__ import annotations

import os
import shutil
import uuid
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

from trainfeed.datacenters import local_target
from trainfeed.errors import ConflictError
from trainfeed.paths import FilePath
from trainfeed.scaffold._batch_texts import BATCH_EDITS, BATCH_FUNCTION
from trainfeed.scaffold._sample import FIRST_DAY, NUM_DAYS, record_sample
from trainfeed.scaffold._scaffold_texts import PREPROCESS, SPEC, TRAIN
from trainfeed.specification import SPEC_FILE, check_dataset_name, json_schema_text
from trainfeed.storage import posix

__all__ = ["new_dataset"]

# With ``_model`` behind it, the name of a data set stays within the 63 characters of a name.
_NAME_CHARS: Final = 57
_SCHEMA_FILE: Final = "dataset.schema.json"
# In a checkout, seen from the data sets in include/datasets.
_COMMITTED: Final = Path("..", "..", "docs", _SCHEMA_FILE)


def new_dataset(datasets: FilePath, name: str, *, batch: bool = False) -> dict[str, Any]:
    """Make a data set that can be built at once.

    Args:
        datasets: The folder of data sets; made when it is not there.
        name: Name of the data set.
        batch: Whether its function gets many records at once; both modes give the same samples.

    Returns:
        ``dataset``, ``folder``, ``files``, ``records`` (number of records in the sample) and
        ``interval`` (name of the first interval).

    Raises:
        SpecError: ``name`` is not valid as the name of a data set.
        ConflictError: The name is taken. Nothing was changed.
        StorageError: The file system refused or failed.
    """
    check_dataset_name(name)
    datasets = Path(local_target(datasets))
    folder = datasets / name
    if folder.is_symlink() or folder.exists():
        raise ConflictError(f"{folder}: the name is taken; nothing was changed; choose another one")
    with posix.map_errors(datasets):
        datasets.mkdir(parents=True, exist_ok=True)
        # Folders whose names begin with a dot are no data sets, so the unfinished one is not seen.
        staging = datasets / f".{name}.{uuid.uuid4().hex}"
        staging.mkdir()
        try:
            records = _fill(staging, name, _schema(datasets), batch=batch)
            posix.rename_directory(staging, folder)
        finally:
            shutil.rmtree(staging, ignore_errors=True)
    return {
        "dataset": name,
        "folder": str(folder),
        "files": sorted(str(path.relative_to(folder)) for path in folder.iterdir()),
        "records": records,
        "interval": f"{FIRST_DAY:%Y-%m-%d}",
    }


def _fill(folder: Path, name: str, schema: str, *, batch: bool) -> int:
    last = FIRST_DAY + timedelta(days=NUM_DAYS - 1)
    values = {
        "@NAME@": name,
        "@MODEL@": f"{name[:_NAME_CHARS]}_model",
        "@SCHEMA@": schema,
        "@FIRST@": f"{FIRST_DAY:%Y-%m-%d}",
        "@LAST@": f"{last:%Y-%m-%d}",
    }
    edits = [*(BATCH_EDITS if batch else ()), *values.items()]
    function = PREPROCESS + BATCH_FUNCTION if batch else PREPROCESS
    for file, text in ((SPEC_FILE, SPEC), ("preprocess.py", function), ("train.py", TRAIN)):
        for mark, value in edits:
            text = text.replace(mark, value)  # noqa: PLW2901 - filled in mark by mark
        (folder / file).write_text(text, encoding="utf-8")
    return record_sample(folder / "sample", name)


def _schema(datasets: Path) -> str:
    """Return the path of the schema for specifications, relative to a data set's folder.

    In a checkout this is the committed schema; elsewhere a copy is written beside the data sets.
    """
    if (datasets / _COMMITTED).is_file():
        return os.path.join("..", _COMMITTED)  # noqa: PTH118 - Path would keep the dots as well
    posix.replace_file(datasets / _SCHEMA_FILE, json_schema_text().encode())
    return f"../{_SCHEMA_FILE}"
