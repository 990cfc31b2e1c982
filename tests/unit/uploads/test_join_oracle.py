"""Random uploads and records against the rule said in plain Python."""

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.uploads.labelled import make_labelled
from trainfeed.pipeline.functions.modes import LabelledFunction
from trainfeed.pipeline.functions.user_function import judge
from trainfeed.pipeline.labels import LabelJoin
from trainfeed.preprocessing import Filtered
from trainfeed.uploads import LabelFields
from trainfeed.uploads.labels import merged, table_of_rows

IDS = st.integers(0, 12)
UPLOAD = st.dictionaries(IDS, st.tuples(st.integers(-128, 127), st.none() | st.text("ab")))
RECORDS = st.lists(st.lists(IDS, min_size=1, max_size=3), max_size=20)


class Function:
    """A function whose records are lists of ids: one sample for each."""

    def call(self, record):
        return [{"id": number, "value": number / 2} for number in record]

    def call_batch(self, batch):
        rows = [(row, number) for row, record in enumerate(batch) for number in record]
        returned = pa.RecordBatch.from_pydict(
            {
                "_row": pa.array([row for row, _ in rows], pa.int32()),
                "id": pa.array([number for _, number in rows], pa.int64()),
                "value": pa.array([number / 2 for _, number in rows], pa.float32()),
            }
        )
        return judge(returned, ["id", "value"], len(batch))


def oracle(uploads, records, join):
    """The samples of every record, None for a filtered one; and the counts."""
    newest = {}
    for upload in uploads:
        newest.update(upload)
    outcome, met = [], [number for record in records for number in record]
    for record in records:
        samples = [
            (number, *newest.get(number, (-1, None)))
            for number in record
            if number in newest or join == "left"
        ]
        outcome.append(samples or None)
    matched = sum(number in newest for number in met)
    counts = (matched, len(met) - matched)
    return outcome, counts, len(newest.keys() & set(met)), sum(map(len, uploads)) - len(newest)


def test_joins_equal_the_oracle_in_both_modes(tmp_path):
    labelled = make_labelled(tmp_path)
    specs = {"left": labelled.spec}
    labelled.edit("join: left, defaults: {label: -1}", "join: inner")
    specs["inner"] = labelled.spec

    @given(st.lists(UPLOAD, max_size=4), RECORDS, st.sampled_from(["left", "inner"]), st.booleans())
    def compare(uploads, records, join, repeats):
        spec = specs[join]
        fields = LabelFields.of(spec)
        files = [_rows(upload, repeats=repeats) for upload in uploads]
        tables = [table_of_rows(rows, fields, n, 1 << 30) for n, rows in enumerate([[], *files])]
        labels = merged(tables, fields, 1 << 30)
        outcome, counts, used, superseded = oracle(uploads, records, join)
        assert labels.rows == sum(map(len, files))
        assert labels.superseded == superseded
        assert labels.rows == len(labels.table) + labels.superseded + labels.repeated
        for call in (_by_record, _by_batch):
            labels_of = LabelJoin(spec, labels.table)
            assert call(LabelledFunction(Function(), labels_of), records) == outcome
            assert (labels_of.counts.matched, labels_of.counts.unmatched) == counts
            assert int(labels_of.used.sum()) == used

    compare()


def test_keys_that_share_a_hash_are_told_apart(tmp_path, monkeypatch):
    for module in ("trainfeed.uploads.labels", "trainfeed.pipeline.labels"):
        monkeypatch.setattr(f"{module}.hash_of_key", lambda key: key[0] % 2)
    spec = make_labelled(tmp_path).spec
    rows = _rows({number: (number, None) for number in range(0, 20, 2)}, repeats=True)
    fields = LabelFields.of(spec)
    labels = merged([table_of_rows(rows, fields, 0, 1 << 30)], fields, 1 << 30)
    assert (labels.repeated, len(labels.table)) == (10, 10)
    records = [[number] for number in range(22)]
    for call in (_by_record, _by_batch):
        found = call(LabelledFunction(Function(), LabelJoin(spec, labels.table)), records)
        assert [sample[0][1] for sample in found] == [
            number if number % 2 == 0 and number < 20 else -1 for number in range(22)
        ]


def _rows(upload, *, repeats):
    rows = [
        {"id": np.array(number), "label": np.array(label, np.int8), "note": note}
        for number, (label, note) in upload.items()
    ]
    return rows * 2 if repeats else rows


def _by_record(function, records):
    outcome = []
    for record in records:
        result = function.call(record)
        if isinstance(result, Filtered):
            assert result.reason == "unlabelled"
            outcome.append(None)
        else:
            outcome.append([(s["id"], s["label"], s["note"]) for s in result])
    return outcome


def _by_batch(function, records):
    if not records:
        return []
    judged = function.call_batch(records)
    samples = judged.samples(["id", "label", "note"]).to_pylist()
    outcome = [None] * len(records)
    for row, ordinal, sample in zip(judged.rows, judged.ordinals, samples, strict=True):
        outcome[row] = outcome[row] or []
        assert len(outcome[row]) == ordinal
        outcome[row].append((sample["id"], sample["label"], sample["note"]))
    lost = [row for row, found in enumerate(outcome) if found is None]
    assert judged.filtered.get("unlabelled", np.array([])).tolist() == lost
    return outcome
