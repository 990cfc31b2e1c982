"""Samples from anywhere → shards of record files, and between the formats that others use."""

from trainfeed.conversion._arrow_files import (
    open_arrow,
    open_parquet,
    write_arrow,
    write_parquet,
)
from trainfeed.conversion._arrow_schema import arrow_schema
from trainfeed.conversion._base64_reader import ImageOptions, ImageSample, base64_reader
from trainfeed.conversion._base64_tool import Base64Report, process_base64
from trainfeed.conversion._convert import convert, convert_arrays
from trainfeed.conversion._csv_files import CsvOptions, read_csv, write_csv
from trainfeed.conversion._files import convert_files
from trainfeed.conversion._idx import (
    IdxHeader,
    idx_schema,
    iter_idx,
    iter_idx_pairs,
    read_idx_header,
    write_idx,
)
from trainfeed.conversion._json_lines import read_json_lines, write_json_lines
from trainfeed.conversion._json_samples import JsonSamples
from trainfeed.conversion._manifest import Encoding, ShardManifest
from trainfeed.conversion._merge import merge_files
from trainfeed.conversion._names import MAX_SHARDS, ShardName, shard_name
from trainfeed.conversion._options import ConvertOptions, FileFormat
from trainfeed.conversion._plan import ConversionRequest
from trainfeed.conversion._publication import finish_publication
from trainfeed.conversion._repair import RepairReport, repair_file, repair_in_place
from trainfeed.conversion._roots import Roots
from trainfeed.conversion._shards import ShardInfo
from trainfeed.conversion._sidecar import load_schema
from trainfeed.conversion._sinks import SinkOptions, transcode
from trainfeed.conversion._sniff import Format, format_of
from trainfeed.conversion._sources import SampleFile, SourceOptions, open_sample_file, paths_of
from trainfeed.conversion._sparse import (
    SparseOptions,
    count_features,
    format_sparse,
    parse_sparse,
    read_sparse,
)
from trainfeed.conversion._stages import (
    gather_shards,
    plan_conversion,
    publish_conversion,
    scatter_files,
)
from trainfeed.conversion._webdataset import (
    read_webdataset,
    webdataset_schema,
    write_webdataset,
)

__all__ = [
    "MAX_SHARDS",
    "Base64Report",
    "ConversionRequest",
    "ConvertOptions",
    "CsvOptions",
    "Encoding",
    "FileFormat",
    "Format",
    "IdxHeader",
    "ImageOptions",
    "ImageSample",
    "JsonSamples",
    "RepairReport",
    "Roots",
    "SampleFile",
    "ShardInfo",
    "ShardManifest",
    "ShardName",
    "SinkOptions",
    "SourceOptions",
    "SparseOptions",
    "arrow_schema",
    "base64_reader",
    "convert",
    "convert_arrays",
    "convert_files",
    "count_features",
    "finish_publication",
    "format_of",
    "format_sparse",
    "gather_shards",
    "idx_schema",
    "iter_idx",
    "iter_idx_pairs",
    "load_schema",
    "merge_files",
    "open_arrow",
    "open_parquet",
    "open_sample_file",
    "parse_sparse",
    "paths_of",
    "plan_conversion",
    "process_base64",
    "publish_conversion",
    "read_csv",
    "read_idx_header",
    "read_json_lines",
    "read_sparse",
    "read_webdataset",
    "repair_file",
    "repair_in_place",
    "scatter_files",
    "shard_name",
    "transcode",
    "webdataset_schema",
    "write_arrow",
    "write_csv",
    "write_idx",
    "write_json_lines",
    "write_parquet",
    "write_webdataset",
]
