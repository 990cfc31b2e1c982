"""A small data set whose function reads fields by name, over the same rows in every format."""

from __future__ import annotations

import csv
import io
import json

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import orc

from tests.support.avro_files import container
from tests.unit.pipeline.log_project import make_log_project
from trainfeed.readers import open_dataset
from trainfeed.recordio import RecordWriter
from trainfeed.tfrecord import TFRecordWriter

TYPES = {"value": pa.float64(), "copies": pa.int32(), "name": pa.utf8()}
FORMATS = ("parquet", "orc", "arrow", "avro")
# Formats of lines with fields, and what dataset.yaml says of them.
LINE_FIELDS = "fields: {value: float64, copies: int64, name: str}"
AVRO_NAMES = {"double": "double", "int32": "int", "int64": "long", "string": "string"}
CODE = """
from trainfeed.preprocessing import Filtered, Reject


def clicks(record, lookups):
    row = record.fields
    if row["value"] is None:
        raise Reject("no_value", "expected a value")
    if row["value"] < 0:
        return Filtered("negative")
    return [{"value": row["value"], "label": n + len(row["name"])} for n in range(row["copies"])]
"""
BATCH_CODE = """
import numpy as np
import pyarrow as pa

from trainfeed.preprocessing import Filtered, Reject, columns_of, iter_records

FIELDS = {"value": pa.float64(), "copies": pa.int64(), "name": pa.utf8()}


def clicks(batch, lookups):
    rows, columns = columns_of(batch, FIELDS)
    assert len(rows) == batch.num_rows
    made = []
    for row, found in zip(rows.tolist(), columns.to_pylist()):
        one = {"_row": row, "value": 0.0, "label": 0, "_rejected": None, "_filtered": None, "_message": None}
        if found["value"] is None:
            made.append({**one, "_rejected": "no_value", "_message": "expected a value"})
        elif found["value"] < 0:
            made.append({**one, "_filtered": "negative"})
        elif not found["copies"]:
            made.append({**one, "_filtered": "empty"})
        else:
            for n in range(found["copies"]):
                made.append({**one, "value": found["value"], "label": n + len(found["name"])})
    kinds = {"_row": pa.int32(), "value": pa.float32(), "label": pa.int64(), "_rejected": pa.utf8(),
             "_filtered": pa.utf8(), "_message": pa.utf8()}
    return pa.RecordBatch.from_pylist(made, schema=pa.schema(list(kinds.items())))
"""  # noqa: E501


def rows(first, count):
    """Rows of which some are broken, some filtered, and some give no or two samples."""
    for number in range(first, first + count):
        value = None if number % 10 == 3 else -1.0 if number % 10 == 4 else float(number)
        copies = number % 3 if number % 10 == 5 else 1
        yield {"value": value, "copies": copies, "name": "é" * (number % 7)}


def write_rows(path, file_format, found, group_rows, types=None):
    """Write rows as a file of the format, with groups of about so many rows."""
    found = list(found)
    path.unlink(missing_ok=True)
    values = [json.dumps(row).encode() for row in found]
    table = pa.Table.from_pylist(found, pa.schema(list((types or TYPES).items())))
    if file_format == "csv":
        path.write_text(csv_of(found), newline="")
    elif file_format in {"lines", "json"}:
        path.write_bytes(b"".join(value + b"\n" for value in values))
    elif file_format == "parquet":
        pq.write_table(table, path, row_group_size=group_rows)
    elif file_format == "orc":
        # The smallest stripes that the writer makes.
        orc.write_table(table, path, stripe_size=1, batch_size=group_rows)
    elif file_format == "avro":
        fields = [
            {"name": name, "type": ["null", AVRO_NAMES[str(kind)]]}
            for name, kind in (types or TYPES).items()
        ]
        schema = {"type": "record", "name": "Row", "fields": fields}
        path.write_bytes(container(schema, found, group_rows))
    elif file_format == "arrow":
        with pa.ipc.new_file(path, table.schema) as writer:
            writer.write_table(table, max_chunksize=group_rows)
    else:
        sizes = {"max_chunk_bytes": 50 * group_rows, "quantum_records": 1}
        is_chunked = file_format == "recordio"
        with RecordWriter(path, **sizes) if is_chunked else TFRecordWriter(path) as writer:
            for value in values:
                writer.write(value)


def csv_of(found):
    """Rows as CSV with quotes around text alone: no cell is null, two quotes are an empty text."""
    made = io.StringIO()
    writer = csv.DictWriter(
        made, ["note", *TYPES], quoting=csv.QUOTE_NONNUMERIC, lineterminator="\n"
    )
    writer.writeheader()
    for row in found:
        writer.writerow({"note": 'a "note", not read', **row})
    # The writer puts quotes around an absent number.
    return made.getvalue().replace(',"",', ",,") if found else ""


def make_row_project(path, file_format, counts=(100, 40, 0), group_rows=16):
    """Lay out the data set and one day of files."""
    project = make_log_project(path)
    for old in project.logs.glob("part-*"):
        old.unlink()
    first = 0
    for number, count in enumerate(counts):
        write_rows(project.logs / f"part-{number}", file_format, rows(first, count), group_rows)
        first += count
    if file_format != "lines":
        more = f", {LINE_FIELDS}" if file_format in {"csv", "json"} else ""
        project.edit("wait: 36500d", f"wait: 36500d, format: {file_format}{more}")
    (project.env.datasets / "clicks/preprocess.py").write_text(CODE)
    return project


def as_batches(project):
    project.edit('"preprocess:clicks"}', '"preprocess:clicks", input: batch}')
    (project.env.datasets / "clicks/preprocess.py").write_text(BATCH_CODE)
    return project


def samples(project):
    """All samples of the version, sorted."""
    found = [
        (sample["value"].item(), sample["label"].item())
        for split in ("train", "eval")
        for sample in open_dataset(project.version().path, split=split).reader()()
    ]
    return sorted(found)
