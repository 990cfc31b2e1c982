"""Reads specifications from their folders, and the Python modules beside them as bytes."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import Any, Final

from trainfeed.datacenters import local_source
from trainfeed.errors import ConfigError, FormatError, NotFoundError, SpecError, StorageError
from trainfeed.paths import FilePath, open_plain, read_plain
from trainfeed.specification._checks import contradictions
from trainfeed.specification._dataset_names import SPEC_FILE
from trainfeed.specification._model import DatasetSpec
from trainfeed.specification._near_names import (
    did_you_mean,
)
from trainfeed.specification._problems import (
    Problem,
    RefusedError,
    spec_error,
)
from trainfeed.specification._validation import line_of, validate
from trainfeed.specification._yaml import read_yaml

__all__ = ["load_spec", "load_specs", "read_module", "spec_folders", "spec_or_error"]

# Room for ten thousand fields of one line each.
_MAX_BYTES = 256 << 10
_MAX_MODULE_BYTES: Final = 16 << 20
_KEPT_SPECS: Final = 64


def load_spec(folder: FilePath) -> DatasetSpec:
    """Return the specification in ``folder``, checked as a whole; no other file is opened.

    Raises:
        SpecError: The specification is wrong. The message has one line per problem: file, line,
            field, expected and given value, remedy.
    """
    folder = Path(local_source(folder))
    file = folder / SPEC_FILE
    try:
        return _parse(_read(file), folder.absolute())
    except RefusedError as refused:
        raise spec_error(file, refused.problems) from None


def load_specs(datasets: FilePath) -> list[DatasetSpec | SpecError]:
    """Return all specifications below ``datasets``, in order of their folders' names.

    A wrong specification is in the list as its error, so that the others can still be used.

    Raises:
        ConfigError: ``datasets`` is no folder that can be listed.
    """
    return [spec_or_error(folder) for folder in spec_folders(datasets)]


def spec_folders(datasets: FilePath) -> list[Path]:
    """Return the folders of all data sets below ``datasets``, in order of their names.

    No file is opened. Folders whose names begin with ``.`` or ``_`` are no data sets.

    Raises:
        ConfigError: ``datasets`` is no folder that can be listed.
    """
    try:
        folders = [path for path in Path(local_source(datasets)).iterdir() if path.is_dir()]
    except OSError as error:
        raise ConfigError(
            f"expected a folder of data sets, got {str(datasets)!r} ({error.strerror});"
            " set TRAINFEED_DATASETS"
        ) from error
    names = [folder for folder in folders if not folder.name.startswith((".", "_"))]
    return sorted(names, key=lambda folder: folder.name)


def spec_or_error(folder: FilePath) -> DatasetSpec | SpecError:
    """Return the specification in ``folder``, or its error."""
    try:
        return load_spec(folder)
    except SpecError as error:
        return error


def _read(file: Path) -> str:
    try:
        with open_plain(file, follow=True) as stream:
            data = stream.read(_MAX_BYTES + 1)
    except NotFoundError:
        text = f"expected a specification, got no such file; {_missing_hint(file)}"
        raise RefusedError(Problem(1, (), text)) from None
    except FormatError as error:  # a pipe, for instance: reading it would wait for a writer
        raise RefusedError(Problem(1, (), str(error.args[0]))) from error
    except StorageError as error:
        raise RefusedError(Problem(1, (), f"expected a file that can be read: {error}")) from error
    if len(data) > _MAX_BYTES:
        raise RefusedError(Problem(1, (), f"expected at most {_MAX_BYTES} bytes, got more"))
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise RefusedError(Problem(line, (), "expected UTF-8 text, got other bytes")) from None


def _missing_hint(file: Path) -> str:
    folder = file.parent
    if not folder.is_dir():
        others = sorted(path.parent.name for path in folder.parent.glob(f"*/{SPEC_FILE}"))
        return did_you_mean(folder.name, others) if others else "make the folder first"
    misnamed = sorted(path.name for path in folder.glob("*.y*ml"))
    return f"rename {misnamed[0]!r}" if misnamed else "add it, or move the folder elsewhere"


def _parse(text: str, folder: Path) -> DatasetSpec:
    document, spec = _validated(text, folder)
    problems = [Problem(line_of(document, c.place), *c) for c in contradictions(spec)]
    if problems:
        raise RefusedError(*problems)
    return spec


@lru_cache(_KEPT_SPECS)
def _validated(text: str, folder: Path) -> tuple[Any, DatasetSpec]:
    """Return document and specification; a process with many builds reads the same text often."""
    document = read_yaml(text)
    return document, validate(document, {"folder": folder})


def read_module(path: FilePath) -> bytes:
    """Return the source of a module.

    Raises:
        NotFoundError: There is no such file.
        FormatError: The path is no plain file, or the file is larger than 16 MiB.
        StorageError: The file cannot be read.
    """
    return read_plain(path, follow=True, max_bytes=_MAX_MODULE_BYTES)
