"""Batch mode: the same samples as record mode, and every source record accounted for."""

from pathlib import Path

import pyarrow as pa
import pytest

from tests.unit.pipeline.clicks import DAY_MS, START_MS, batch, day, event
from trainfeed.errors import PreprocessError
from trainfeed.pipeline.functions.user_function import (
    BATCH_SCHEMA,
    WrongBatchError,
    judge,
    source_batch,
)
from trainfeed.readers import open_dataset

CODE = """
import json

import numpy as np
import pyarrow as pa


def clicks(batch, lookups):
    rows, values, labels, rejected, filtered = [], [], [], [], []

    def add(row, value=0.0, label=0, reject=None, drop=None):
        rows.append(row); values.append(value); labels.append(label)
        rejected.append(reject); filtered.append(drop)

    for row, data in enumerate(batch.column("value").to_pylist()):
        try:
            found = json.loads(data)
        except ValueError:
            add(row, reject="not_json")
            continue
        if found["value"] < 0:
            add(row, drop="negative")
            continue
        copies = found.get("copies", 1)
        if not copies:
            add(row, drop="empty")
        for label in range(copies):
            add(row, found["value"], label)
    # In any order: only rows of one record keep theirs.
    order = np.argsort(np.array(rows) % 7, kind="stable")
    return pa.RecordBatch.from_pydict({
        "_row": pa.array(np.array(rows)[order]),
        "value": pa.array(np.array(values)[order], pa.float64()),
        "label": pa.array(np.array(labels)[order]),
        "_rejected": pa.array([rejected[i] for i in order], pa.utf8()),
        "_filtered": pa.array([filtered[i] for i in order], pa.utf8()),
    })
"""


def as_batches(project, code=CODE):
    project.edit("input: record", "input: batch")
    (project.env.datasets / "clicks" / "preprocess.py").write_text(code)
    return project


def returning(project, columns):
    """Make the function return these columns of what it got, beside ``_row``."""
    code = "import numpy as np\nimport pyarrow as pa\n\n\ndef clicks(batch, lookups):\n    n = "
    code += "batch.num_rows\n    row = batch.column('_row')\n    zeros = pa.array(np.zeros(n))\n"
    code += f"    return pa.RecordBatch.from_pydict({columns})\n"
    return as_batches(project, code)


def same(version, other):
    assert version.manifest.content_digest == other.manifest.content_digest
    assert version.manifest.ledger == other.manifest.ledger
    assert version.manifest.filtered == other.manifest.filtered
    assert version.manifest.quarantine == other.manifest.quarantine
    shards = [
        [shard for split in v.manifest.splits.values() for shard in split.shards]
        for v in (version, other)
    ]
    assert shards[0] == shards[1]


@pytest.mark.parametrize("by", ["record", "[label]", "[value, label]"])
def test_batches_give_the_samples_order_and_account_of_single_records(project, by):
    project.edit("by: record", f"by: {by}")
    project.build()
    other = project.elsewhere("batches")
    as_batches(other).build()
    same(other.version(), project.version())


def test_late_records_get_their_split_in_batches_too(project):
    project.edit("settle: 0s", "settle: 0s, late: separate")
    rows = day(0, 20) + day(1, 10) + [event(9, START_MS + DAY_MS - 5)] + day(2, 5)
    project.record({0: [batch(rows)]})
    project.build("2024-03-02")
    other = project.elsewhere("batches")
    as_batches(other).build("2024-03-02")
    assert other.version("2024-03-02").manifest.splits["late"].samples == 1
    same(other.version("2024-03-02"), project.version("2024-03-02"))


def test_several_processes_give_equal_bytes(project):
    as_batches(project).build()
    other = project.elsewhere("many")
    other.edit("seed: 7", "seed: 7\nresources: {processes: 3}")
    other.build()
    same(other.version(), project.version())


FIELDS = "{'_row': row, 'value': zeros, 'label': zeros"


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        (FIELDS.replace("row,", "pa.array([0] * n),"), r"lost 59 of 60 records.*row 1"),
        (FIELDS.replace("row,", "pa.array(np.arange(n) + 1),"), r"_row 60 in row 59.*0 to 59"),
        (FIELDS.replace("row,", "pa.array([None] * n, pa.int32()),"), "60 nulls"),
        (FIELDS.replace("row,", "zeros,"), "_row as double"),
        (FIELDS.replace("'_row': row, ", ""), "no column _row"),
        (FIELDS + ", 'x': row", r"the columns \['x'\]"),
        (FIELDS.replace(", 'label': zeros", ""), r"'label': expected int64, got no column"),
        (FIELDS.replace("'label': zeros", "'label': pa.array(np.full(n, .5))"), "no whole number"),
        (FIELDS.replace("'label': zeros", "'label': pa.array(['a'] * n)"), "column of string"),
        (FIELDS.replace("'label': zeros", "'label': pa.array([[1]] * n)"), r"column of list<"),
        (FIELDS.replace("'value': zeros", "'value': pa.array([1.0] * 9 + [None] * (n - 9))"), "null"),  # noqa: E501
        (FIELDS + ", '_filtered': pa.array(['Bad Reason'] * n)", "wrong reason"),
        (FIELDS + ", '_filtered': row", "_filtered"),
        (FIELDS + ", '_filtered': pa.array(['a'] * n), '_rejected': pa.array(['b'] * n)", "reject"),
    ],
)  # fmt: skip
def test_whatever_is_wrong_with_a_batch_names_function_batch_and_position(
    project, columns, message
):
    project.record({0: [batch(day(0, 60))]})
    returning(project, columns + "}")
    with pytest.raises(PreprocessError, match=message) as caught:
        project.build()
    text = str(caught.value)
    assert "preprocess:clicks of data set 'clicks'" in text
    assert "kafka:clicks/0 offset" in text
    assert "nothing was published" in text


def test_the_first_row_that_breaks_the_schema_is_named(project):
    project.record({0: [batch(day(0, 60))]})
    label = "pa.array(np.where(np.arange(n) == 41, 2.0**70, 1.0))"
    returning(project, FIELDS.replace("'label': zeros", f"'label': {label}") + "}")
    with pytest.raises(PreprocessError, match=r"offset 41, row 41 in the batch of .* offsets 0 to"):
        project.build()


@pytest.mark.parametrize("returned", ["None", "batch", "[]", "pa.table({'_row': row})"])
def test_anything_but_a_record_batch_of_the_schema_is_refused(project, returned):
    code = "import pyarrow as pa\n\n\ndef clicks(batch, lookups):\n"
    code += f"    row = batch.column('_row')\n    return {returned}\n"
    as_batches(project, code)
    with pytest.raises(PreprocessError, match="return"):
        project.build()


def test_a_function_that_raises_names_the_batch(project):
    as_batches(project, "def clicks(batch, lookups):\n    raise KeyError('x')\n")
    with pytest.raises(
        PreprocessError,
        match=r"raised KeyError: 'x' \(preprocess\.py:2\) in the batch of kafka:clicks/",
    ):
        project.build()


def test_the_function_gets_what_a_record_has(project):
    rows = [event(1, START_MS + i) for i in range(3)]
    rows[1] |= {"key": b"k", "headers": [{"key": "h", "value": b"v"}]}
    landed = batch(rows, first=5)
    got = source_batch(landed, "kafka:clicks/2")
    assert got.schema == BATCH_SCHEMA
    assert got.column("offset").to_pylist() == [5, 6, 7]
    assert got.column("_row").to_pylist() == [0, 1, 2]
    assert got.column("source").to_pylist() == ["kafka:clicks/2"] * 3
    assert got.column("headers").to_pylist()[1] == [{"key": "h", "value": b"v"}]


def columns(**more):
    return pa.RecordBatch.from_pydict(more)


def test_ordinals_follow_the_order_of_a_records_rows():
    judged = judge(columns(_row=[2, 0, 2, 1, 0, 2], a=[1, 2, 3, 4, 5, 6]), ["a"], 3)
    assert judged.rows.tolist() == [0, 0, 1, 2, 2, 2]
    assert judged.ordinals.tolist() == [0, 1, 0, 0, 1, 2]
    assert judged.samples(["a"]).column("a").to_pylist() == [2, 5, 4, 1, 3, 6]


def test_messages_come_with_rejections_and_are_cut():
    returned = columns(
        _row=[1, 0], a=[0, 0], _rejected=["broken", None], _message=["x" * 600, "unused"]
    )
    rows, reasons, messages = judge(returned, ["a"], 2).rejected
    assert (rows.tolist(), reasons, messages) == ([1], ["broken"], ["x" * 500])


@pytest.mark.parametrize("twice", [{"_filtered": ["a", "a"]}, {"_rejected": ["a", None]}])
def test_a_record_is_turned_down_once_or_kept(twice):
    with pytest.raises(WrongBatchError, match="2 rows") as caught:
        judge(columns(_row=[0, 0], a=[1, 1], **twice), ["a"], 1)
    assert caught.value.row == 0


def test_an_empty_batch_is_judged():
    empty = pa.RecordBatch.from_pydict({"_row": pa.array([], pa.int32()), "a": pa.array([])})
    assert judge(empty, ["a"], 0).rows.tolist() == []


def test_no_record_at_all_may_remain(project):
    returning(project, FIELDS + ", '_filtered': pa.array(['unwanted'] * n)}")
    assert project.build()["samples"] == 0


def test_variable_optional_and_shaped_fields_come_as_lists_and_nulls(project):
    schema = """schema:
  grid: {dtype: int16, shape: [2, 3]}
  words: {dtype: float32, shape: [null, 2]}
  note: {dtype: str, optional: true}
  raw: {dtype: bytes}
  score: {dtype: float64, optional: true}
"""
    project.edit("schema:\n  value: {dtype: float32}\n  label: {dtype: int64}\n", schema)
    project.record({0: [batch([event(i, START_MS + i) for i in range(20)])]})
    (project.env.datasets / "clicks" / "preprocess.py").write_text("""
import numpy as np


def clicks(record, lookups):
    n = record.json()["value"]
    return {"grid": np.full((2, 3), n), "words": [[n, -n]] * (n % 3), "raw": b"r" * n,
            "note": None if n % 2 else f"n{n}", "score": n / 3 if n % 5 else None}
""")
    project.build()
    other = project.elsewhere("batches")
    as_batches(
        other,
        """
import json

import numpy as np
import pyarrow as pa


def clicks(batch, lookups):
    n = [json.loads(v)["value"] for v in batch.column("value").to_pylist()]
    pair = pa.list_(pa.list_(pa.float32(), 2))
    return pa.RecordBatch.from_pydict({
        "_row": batch.column("_row"),
        "grid": pa.array([[[v] * 3] * 2 for v in n], pa.list_(pa.list_(pa.int64(), 3), 2)),
        "words": pa.array([[[v, -v]] * (v % 3) for v in n], pair),
        "note": pa.array([None if v % 2 else f"n{v}" for v in n]),
        "raw": pa.array([b"r" * v for v in n]),
        "score": pa.array([v / 3 if v % 5 else None for v in n]),
    })
""",
    )
    other.build()
    same(other.version(), project.version())
    sample = next(open_dataset(other.version().path, split="train").reader()())
    assert sample["grid"].shape == (2, 3)


def test_the_example_of_the_documentation_gives_the_samples_of_single_records(project):
    text = (Path(__file__).parents[4] / "docs" / "guides" / "batch-mode.md").read_text()
    code = text.partition("```python\n")[2].partition("```")[0]
    # Copies are samples that the example does not make.
    project.edit(' for n in range(row.get("copies", 1))', " for n in range(1)", "preprocess.py")
    project.edit(
        'raise Reject("no_value", "expected a value")', 'raise Reject("no_value")', "preprocess.py"
    )
    project.edit("row = record.json()", "row = loads(record)", "preprocess.py")
    code_file = project.env.datasets / "clicks" / "preprocess.py"
    code_file.write_text(code_file.read_text() + LOADS)
    project.build()
    other = project.elsewhere("batches")
    as_batches(other, code).build()
    ours, theirs = project.version().manifest, other.version().manifest
    assert ours.content_digest == theirs.content_digest
    assert ours.quarantine == theirs.quarantine
    assert ours.filtered == theirs.filtered


LOADS = """

def loads(record):
    try:
        return record.json()
    except Exception:
        return {}
"""


def test_a_worker_that_goes_on_takes_the_fields_of_the_next_build(project):
    """The code is that of before, the schema is not."""
    as_batches(project)
    project.build()
    project.edit("  label: {dtype: int64}\n", "")
    with pytest.raises(PreprocessError, match=r"returned the columns.*label"):
        project.build("2024-03-02")
