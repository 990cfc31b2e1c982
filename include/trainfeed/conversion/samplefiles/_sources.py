"""Input files of ``convert_files`` and of the commands: paths to samples, for any format."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Final

from trainfeed.conversion.formats import open_arrow, open_parquet
from trainfeed.conversion.samplefiles._array_openers import npy_file, npz_file, webdataset_file
from trainfeed.conversion.samplefiles._file_openers import (
    csv_file,
    idx_file,
    json_lines_file,
    records_file,
    sparse_file,
    table_file,
)
from trainfeed.conversion.samplefiles._sample_file import SampleFile, SourceOptions
from trainfeed.conversion.samplefiles._sniff import Format, format_of
from trainfeed.datacenters import local_source
from trainfeed.dataset import Version
from trainfeed.dataset.layout import MANIFEST
from trainfeed.dataset.shards import ShardManifest, prefixes_in
from trainfeed.errors import ConfigError, FormatError
from trainfeed.paths import FilePath, expand_paths, manifest_name, os_errors

__all__ = ["open_sample_file", "paths_of"]


def paths_of(inputs: str | os.PathLike[str] | Sequence[str | os.PathLike[str]]) -> list[Path]:
    """Return the files that paths, lists with commas, globs and folders stand for, in order.

    Raises:
        NotFoundError: A part matches no file; the message names the part.
        ConfigError: A folder is not a published version, and does not hold exactly one set of
            shards.
    """
    found = map(Path, expand_paths(inputs, counts=True))
    return [path for each in found for path in (_shards_of(each) if each.is_dir() else [each])]


def open_sample_file(path: FilePath, options: SourceOptions) -> SampleFile:
    """Return the samples of a file.

    Raises:
        FormatError: The file does not have the format that its name or ``options`` state.
        ConfigError: ``options`` lack a property that the file does not state.
        NotFoundError: The file does not exist.
    """
    file_format = options.file_format or format_of(path)
    options.require_used(path, file_format)
    try:
        return _OPENERS[file_format](Path(local_source(path)), file_format, options)
    except ConfigError as error:
        # Errors of schemas and fields do not name the file.
        if str(path) not in str(error):
            error.args = (f"{path}: {error.args[0]}",)
        raise


_OPENERS: Final[Mapping[Format, Callable[[Path, Format, SourceOptions], SampleFile]]] = {
    Format.RECORDIO: records_file,
    Format.TFRECORD: records_file,
    Format.PARQUET: partial(table_file, opener=open_parquet),
    Format.ARROW: partial(table_file, opener=open_arrow),
    Format.IDX: idx_file,
    Format.JSON_LINES: json_lines_file,
    Format.CSV: csv_file,
    Format.LIBSVM: sparse_file,
    Format.WEBDATASET: webdataset_file,
    Format.NPY: npy_file,
    Format.NPZ: npz_file,
}


def _shards_of(folder: Path) -> list[Path]:
    with os_errors(folder):
        is_version = (folder / MANIFEST).is_file()
    if is_version:
        version = Version.open(folder)
        return [path for split in version.manifest.splits for path in version.shard_paths(split)]
    found = prefixes_in(folder)
    if len(found) != 1:
        raise ConfigError(
            f"expected {folder} to be a published version, or to hold one set of shards with its"
            f" manifest, got {len(found)}; name the files"
        )
    manifest = ShardManifest.load(folder, found[0])
    if problems := manifest.problems(folder):
        raise FormatError("; ".join(problems[:3]), path=str(folder / manifest_name(found[0])))
    return [folder / shard.name for shard in manifest.shards]
