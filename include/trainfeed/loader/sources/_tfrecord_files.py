"""TFRecord files for a loader; the code that reads them is imported when files are opened."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from trainfeed.datacenters import local_target
from trainfeed.loader.files import DEFAULT_READ_DEADLINE_S, ShardFiles
from trainfeed.loader.sources._known_chunks import Verify
from trainfeed.paths import FilePath, SetWatch, expand_paths
from trainfeed.samples import Schema

if TYPE_CHECKING:
    from trainfeed.loader.sources._tfrecord_places import PlaceFinder
    from trainfeed.loader.sources._tfrecord_source import TFRecordSource

__all__ = ["TFRecordFiles"]


class TFRecordFiles:
    """Uncompressed TFRecord files for a loader.

    Without fields, batches have one field, ``record``, that holds bytes. Compressed files cannot
    be read from the middle; iterate ``trainfeed.readers.tfrecord`` over those.

    Args:
        paths: Files, as ``TFRecordReader`` takes them.
        fields: The fields of the Examples in the records, as a schema.
        index_folder: A folder that keeps the places of the records, 8 bytes per record; made when
            it is missing, writable for one account. Without it the first loader of every process
            reads the files once more, to find the lengths of the records. A kept index is valid
            while size and modification time of the file are unchanged; a file that changed less
            than two seconds ago is not indexed.

    Attributes:
        paths: The files.
        schema: The fields.

    Raises:
        NotFoundError: A path matches no file, or a shard of a glob is missing.
        ConflictError: The files are of several sets of shards.
        FormatError: A shard has another size than its manifest says.
        FileReplacedError: The set of shards is being replaced. Also raised while the files are
            read, if the set was converted again after this object was made.
    """

    def __init__(
        self,
        paths: FilePath | Sequence[FilePath],
        fields: Schema | None = None,
        *,
        index_folder: FilePath | None = None,
    ) -> None:
        self.paths = [str(path) for path in expand_paths(paths, counts=True)]
        self._sets = SetWatch(self.paths)
        self.schema = fields
        self._index_folder = None if index_folder is None else Path(local_target(index_folder))

    def source(
        self,
        *,
        verify: Verify = Verify.FIRST,
        deadline_s: float = DEFAULT_READ_DEADLINE_S,
        in_order: bool = True,
    ) -> TFRecordSource:
        """Return the files as a source; reads the lengths of all records that are not indexed.

        Raises:
            FormatError: A file is compressed, or is not a TFRecord file, or has a record that is
                too long.
            StorageError: A file cannot be read, or the index folder cannot be written to.
        """
        from trainfeed.loader.sources._tfrecord_source import TFRecordSource

        files = ShardFiles(self.paths, deadline_s=deadline_s, in_order=in_order, sets=self._sets)
        with self._sets.explains():
            places = [self._finder.find(path) for path in self.paths]
            source = TFRecordSource(files, self.schema, places, verify=verify)
        self._sets.require_sizes()
        self._sets.require_unchanged()
        return source

    @cached_property
    def _finder(self) -> PlaceFinder:
        """The finder of record places; all sources of these files share it."""
        from trainfeed.loader.sources._tfrecord_places import PlaceFinder

        return PlaceFinder(self._index_folder)
