"""Files of any format as samples: recognises, opens and writes them."""

from trainfeed.conversion.samplefiles._record_samples import ArrayEncoder, record_encoder
from trainfeed.conversion.samplefiles._sample_file import SampleFile, SourceOptions
from trainfeed.conversion.samplefiles._sidecar import known_encoding, load_schema, write_sidecar
from trainfeed.conversion.samplefiles._sinks import SinkOptions, transcode
from trainfeed.conversion.samplefiles._sniff import Format, format_of
from trainfeed.conversion.samplefiles._sources import open_sample_file, paths_of

__all__ = [
    "ArrayEncoder",
    "Format",
    "SampleFile",
    "SinkOptions",
    "SourceOptions",
    "format_of",
    "known_encoding",
    "load_schema",
    "open_sample_file",
    "paths_of",
    "record_encoder",
    "transcode",
    "write_sidecar",
]
