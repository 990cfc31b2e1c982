"""Labels are joined as the upload has them, or it is refused; earlier plans read as ever."""

import pyarrow as pa
import pytest

from tests.unit.uploads.labelled import DAY, make_labelled, parquet_of
from trainfeed.core.reading_rules import ReadingRules
from trainfeed.uploads import applied_uploads, labels_of

NOTES = ["\\frac{1}{2}", "\\\\host\\x", "\\", "NA", "null", "00501", "\\Network"]
TIME = pa.timestamp("us", "UTC")


@pytest.fixture
def labelled(tmp_path):
    return make_labelled(tmp_path)


def notes(labelled, rules=ReadingRules.EXACT):
    uploads = applied_uploads(labelled.folder, DAY)
    table = labels_of(labelled.spec, labelled.folder, uploads, rules).table
    return set(table["label1"].to_pylist())


def test_texts_of_csv_are_joined_as_they_stand(labelled):
    rows = "".join(f"{number},1,{note}\n" for number, note in enumerate(NOTES))
    labelled.put("a.csv", f'id,label,note\n{rows}90,1,\\N\n91,1,"\\N"\n'.encode())
    assert len(labelled.check().accepted) == 1
    assert notes(labelled) == {*NOTES, None, "\\N"}
    assert notes(labelled, ReadingRules.GUESSED) == {
        *(note.removeprefix("\\") for note in NOTES),
        None,
    }


@pytest.mark.parametrize(
    "kinds",
    [(TIME, pa.int8(), pa.utf8()), (pa.duration("s"), pa.int8(), pa.utf8())],
    ids=["time", "duration"],
)
def test_a_column_of_times_for_a_number_is_refused(labelled, kinds):
    labelled.put("a.parquet", parquet_of([(1, 0, "a")], kinds))
    assert "'id'" in labelled.refused()[f"{DAY}/a.parquet"]


@pytest.mark.parametrize("name", ["a.csv", "a.jsonl", "a.parquet"])
def test_a_whole_number_that_a_float_cannot_hold_is_refused(labelled, name):
    labelled.edit("label: {dtype: int8}", "label: {dtype: float32}")
    data = {
        "a.csv": b"id,label\n1,16777217\n",
        "a.jsonl": b'{"id": 1, "label": 16777217}\n',
        "a.parquet": parquet_of([(1, 16777217, "a")], (pa.int64(), pa.int32(), pa.utf8())),
    }
    labelled.put(name, data[name])
    assert "16777217" in labelled.refused()[f"{DAY}/{name}"]
