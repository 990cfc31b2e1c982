"""Converts samples of any origin to shards of record files, and files between common formats.

``formats`` has the table of the formats that are read, ``format_writers`` of those written.
"""

from trainfeed.conversion.arrow import (
    ColumnOptions,
    open_arrow,
    open_parquet,
    renames_of,
    write_arrow,
    write_parquet,
)
from trainfeed.conversion.base64_files import Base64Report, base64_reader, process_base64
from trainfeed.conversion.csv_files import CsvOptions, read_csv, write_csv
from trainfeed.conversion.format_writers import SinkOptions, transcode
from trainfeed.conversion.formats import (
    Format,
    SampleFile,
    SourceOptions,
    format_of,
    open_sample_file,
)
from trainfeed.conversion.idx import (
    idx_schema,
    iter_idx,
    iter_idx_pairs,
    read_idx_header,
    write_idx,
)
from trainfeed.conversion.images import ImageOptions, ImageSample
from trainfeed.conversion.input_paths import paths_of
from trainfeed.conversion.json_lines import JsonSamples, read_json_lines, write_json_lines
from trainfeed.conversion.libsvm import (
    SparseOptions,
    count_features,
    format_sparse,
    parse_sparse,
    read_sparse,
)
from trainfeed.conversion.plan import ConversionRequest, Roots
from trainfeed.conversion.record_copies import (
    RepairReport,
    merge_files,
    repair_file,
    repair_in_place,
)
from trainfeed.conversion.record_files import ConvertOptions, load_schema
from trainfeed.conversion.schema_draft import (
    DraftColumn,
    SchemaDraft,
    draft_of_json,
    draft_schema,
)
from trainfeed.conversion.shard_set import finish_publication
from trainfeed.conversion.steps import (
    gather_shards,
    plan_conversion,
    publish_conversion,
    scatter_files,
)
from trainfeed.conversion.to_shards import convert, convert_arrays, convert_files
from trainfeed.conversion.typed_draft import column_format_of, draft_records, draft_rows
from trainfeed.conversion.webdataset import read_webdataset, webdataset_schema, write_webdataset
from trainfeed.files import MAX_SHARDS, ShardName, shard_name
from trainfeed.readers import IdxHeader
from trainfeed.samples.arrow import arrow_schema
from trainfeed.versions.shards import Encoding, FileFormat, ShardInfo, ShardManifest

__all__ = [
    "MAX_SHARDS",
    "Base64Report",
    "ColumnOptions",
    "ConversionRequest",
    "ConvertOptions",
    "CsvOptions",
    "DraftColumn",
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
    "SchemaDraft",
    "ShardInfo",
    "ShardManifest",
    "ShardName",
    "SinkOptions",
    "SourceOptions",
    "SparseOptions",
    "arrow_schema",
    "base64_reader",
    "column_format_of",
    "convert",
    "convert_arrays",
    "convert_files",
    "count_features",
    "draft_of_json",
    "draft_records",
    "draft_rows",
    "draft_schema",
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
    "renames_of",
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
