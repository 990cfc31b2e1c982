"""No value changes between a function and a batch: types, modes, formats and readers of sets.

A function returns samples with a field of every type and shape, whose values are drawn. What a
loader gives for the published version is the same to the bit. ``TRAINFEED_VALUES`` draws more, as
in ``test_kept_values.py`` of conversions.
"""

import os
import pickle
import random
import sys
from collections import Counter

import numpy as np
import pytest

from tests.unit.conversion.drawn_values import bits, random_value, wide_schema
from tests.unit.pipeline.clicks import DAY_MS, START_MS, batch
from tests.unit.pipeline.conftest import project
from trainfeed.loader import DataLoader
from trainfeed.readers import open_dataset
from trainfeed.samples import absent_rows

__all__ = ["project"]

ROWS = max(60, int(os.environ.get("TRAINFEED_VALUES", "0")) // 10)
COUNTS = Counter()
RECORD = """
import pickle


def clicks(record, lookups):
    return [pickle.loads(record.value)]
"""
BATCH = """
import pickle

import numpy as np
import pyarrow as pa

from trainfeed.samples import Schema
from trainfeed.samples.arrow import arrow_type

SCHEMA = Schema.from_json({schema})


def column(field, rows):
    values = [row[field.name] for row in rows]
    if field.is_text:
        return pa.array(values, arrow_type(field))
    absent = np.array([value is None for value in values])
    zeros = np.zeros([length or 0 for length in field.shape], field.dtype)
    values = [zeros if value is None else value for value in values]
    leaves = np.concatenate([value.ravel() for value in values])
    if not field.shape:
        return pa.array(leaves, mask=absent)
    items, absent = pa.array(leaves), pa.array(absent)
    for length in field.shape[:0:-1]:
        items = pa.FixedSizeListArray.from_arrays(items, length)
    if field.shape[0] is not None:
        return pa.FixedSizeListArray.from_arrays(items, field.shape[0], mask=absent)
    ends = np.cumsum([0, *map(len, values)]).astype(np.int32)
    return pa.ListArray.from_arrays(pa.array(ends), items, mask=absent)


def clicks(batch, lookups):
    rows = [pickle.loads(value) for value in batch.column("value").to_pylist()]
    columns = {{field.name: column(field, rows) for field in SCHEMA}}
    return pa.RecordBatch.from_pydict({{"_row": batch.column("_row"), **columns}})
"""


def fields_of(schema):
    """The schema as dataset.yaml has it."""
    lines = [
        f"{field.name}: {{dtype: {field.dtype}"
        f", shape: [{', '.join('null' if n is None else str(n) for n in field.shape)}]"
        f", optional: {str(field.optional).lower()}}}"
        for field in schema
    ]
    return "".join(f"  {line.replace(', shape: []', '')}\n" for line in lines)


def publish(project, mode, form, schema, values):
    """Publish what the function makes of values, in chunks of a few samples."""
    step = DAY_MS // len(values)
    rows = [{"value": value, "timestamp": START_MS + n * step} for n, value in enumerate(values)]
    project.record({0: [batch(rows)]})
    project.edit("  value: {dtype: float32}\n  label: {dtype: int64}\n", fields_of(schema))
    project.edit("{train: 0.8, eval: 0.2, by: record}", "{train: 1.0, by: record}")
    project.edit("codec: zstd", f"format: {form}, chunk_bytes: 4KiB")
    project.edit("input: record", f"input: {mode}")
    code = RECORD if mode == "record" else BATCH.format(schema=schema.to_json())
    (project.env.datasets / "clicks" / "preprocess.py").write_text(code)
    project.build()
    return open_dataset(project.version().path, split="train")


def rows_of(batches, schema):
    """The samples of batches, each array of the type that the schema says."""
    for found in batches:
        absent = {name: absent_rows(values).tolist() for name, values in found.items()}
        for name, values in found.items():
            field = next(each for each in schema if each.name == name)
            if field.is_fixed:
                assert (values.dtype, values.shape[1:]) == (field.dtype, field.shape)
        for n in range(len(next(iter(found.values())))):
            yield {
                name: None if absent[name][n] else np.ma.getdata(values)[n]
                for name, values in found.items()
            }


def loaded(dataset, **settings):
    with DataLoader(dataset, 7, **settings) as loader:
        yield from rows_of(loader, dataset.schema)


WAYS = {
    "loader": loaded,
    "shuffled, threads": lambda dataset: loaded(dataset, shuffle=True, num_threads=2),
    "shuffled, copies": lambda dataset: loaded(dataset, shuffle=True, copy=True, lanes=3),
    "reader": lambda dataset: dataset.reader()(),
}


@pytest.mark.timeout(300 + ROWS)
@pytest.mark.parametrize("form", ["recordio", "tfrecord"])
@pytest.mark.parametrize("mode", ["record", "batch"])
def test_a_batch_has_the_values_that_the_function_returned(project, mode, form):
    schema, rng = wide_schema(), random.Random(f"{mode} {form}")
    # Absent values are rare in the first half: chunks with and without them stand side by side.
    rows = [
        {field.name: random_value(field, rng, 0.001 if n < ROWS // 2 else 0.3) for field in schema}
        for n in range(ROWS)
    ]
    wanted = Counter(bits(schema, rows))
    dataset = publish(project, mode, form, schema, [pickle.dumps(row) for row in rows])
    for way, read in WAYS.items():
        found = Counter(bits(schema, read(dataset)))
        changed = (found - wanted).total() + (wanted - found).total()
        COUNTS["values"] += found.total() * len(schema.fields)
        COUNTS["changed"] += changed
        assert not changed, way


def test_values_were_read_and_none_changed(capsys):
    with capsys.disabled():
        sys.stdout.write(f"\n{COUNTS['values']} values, {COUNTS['changed']} changed\n")
    assert COUNTS["changed"] == 0
