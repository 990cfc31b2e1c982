"""Landing files: records of a topic partition or a log file, unchanged from the source."""

from trainfeed.sources.landing._landing_file import LandingFile
from trainfeed.sources.landing._landing_format import (
    BATCH_ROWS,
    LANDING_SCHEMA,
    LandingWriter,
    landing_folder,
    landing_name,
    partition_folder,
)

__all__ = [
    "BATCH_ROWS",
    "LANDING_SCHEMA",
    "LandingFile",
    "LandingWriter",
    "landing_folder",
    "landing_name",
    "partition_folder",
]
