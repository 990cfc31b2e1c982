"""File formats of other programs; each has a module that reads and writes it."""

from trainfeed.conversion.formats._arrow_files import (
    ArrowTable,
    open_arrow,
    open_parquet,
    write_arrow,
    write_parquet,
)
from trainfeed.conversion.formats._arrow_schema import ColumnOptions
from trainfeed.conversion.formats._arrow_stream import begins_stream
from trainfeed.conversion.formats._csv_files import CsvOptions, read_csv, with_delimiter, write_csv
from trainfeed.conversion.formats._idx_samples import (
    IdxHeader,
    idx_schema,
    iter_idx,
    iter_idx_pairs,
    read_idx_header,
    write_idx,
)
from trainfeed.conversion.formats._json_lines import read_json_lines, write_json_lines
from trainfeed.conversion.formats._json_samples import JsonSamples, require_kept
from trainfeed.conversion.formats._npy_files import (
    VALUE,
    fields_of_array,
    iter_npy,
    read_npy_header,
)
from trainfeed.conversion.formats._npy_header import NPY_MAGIC
from trainfeed.conversion.formats._npy_sinks import write_npy, write_npz
from trainfeed.conversion.formats._npz_files import iter_npz, open_npz
from trainfeed.conversion.formats._sparse import (
    SparseOptions,
    count_features,
    format_sparse,
    parse_sparse,
    read_sparse,
    write_sparse,
)
from trainfeed.conversion.formats._webdataset import (
    count_webdataset,
    read_webdataset,
    webdataset_schema,
    write_webdataset,
)

__all__ = [
    "NPY_MAGIC",
    "VALUE",
    "ArrowTable",
    "ColumnOptions",
    "CsvOptions",
    "IdxHeader",
    "JsonSamples",
    "SparseOptions",
    "begins_stream",
    "count_features",
    "count_webdataset",
    "fields_of_array",
    "format_sparse",
    "idx_schema",
    "iter_idx",
    "iter_idx_pairs",
    "iter_npy",
    "iter_npz",
    "open_arrow",
    "open_npz",
    "open_parquet",
    "parse_sparse",
    "read_csv",
    "read_idx_header",
    "read_json_lines",
    "read_npy_header",
    "read_sparse",
    "read_webdataset",
    "require_kept",
    "webdataset_schema",
    "with_delimiter",
    "write_arrow",
    "write_csv",
    "write_idx",
    "write_json_lines",
    "write_npy",
    "write_npz",
    "write_parquet",
    "write_sparse",
    "write_webdataset",
]
