"""The sources of a loader: shards, record files, TFRecord files, Python objects."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trainfeed.lazy_faces import on_demand

if TYPE_CHECKING:
    from trainfeed.loader.sources._known_chunks import Verify
    from trainfeed.loader.sources._map_source import MapSource, content_of, stack
    from trainfeed.loader.sources._published import published_source
    from trainfeed.loader.sources._record_files import RecordFiles
    from trainfeed.loader.sources._skips import MISSING
    from trainfeed.loader.sources._source import Loaded, Source
    from trainfeed.loader.sources._tfrecord_files import TFRecordFiles

__all__ = [
    "MISSING",
    "Loaded",
    "MapSource",
    "RecordFiles",
    "Source",
    "TFRecordFiles",
    "Verify",
    "content_of",
    "published_source",
    "stack",
]

# Names are imported on demand: worker processes import this package and need few of them.

__getattr__ = on_demand(__name__, __file__)
