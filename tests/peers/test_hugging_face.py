"""Data sets of Hugging Face, as the package leaves them on disk."""

import pytest

import datasets
from trainfeed.conversion import ColumnOptions, SourceOptions, convert_files, open_sample_file

FEATURES = datasets.Features(
    {
        "image": {"bytes": datasets.Value("binary"), "path": datasets.Value("string")},
        "tags": datasets.Sequence(datasets.Value("string")),
        "label": datasets.ClassLabel(names=["cat", "dog"]),
    }
)


@pytest.fixture
def saved(tmp_path):
    rows = {
        "image": [{"bytes": bytes([n]), "path": f"{n}.jpg"} for n in range(100)],
        "tags": [["é"] * (n % 3) for n in range(100)],
        "label": [n % 2 for n in range(100)],
    }
    datasets.Dataset.from_dict(rows, features=FEATURES).save_to_disk(tmp_path / "saved")
    return tmp_path / "saved"


def test_a_saved_data_set_is_read_with_its_images(saved, tmp_path):
    (path,) = saved.glob("*.arrow")
    options = SourceOptions(columns=ColumnOptions(("image",), ("tags",)))
    found = list(open_sample_file(path, options).samples())
    assert len(found) == 100
    assert found[5] == {
        "image.bytes": b"\x05",
        "image.path": "5.jpg",
        "tags": '["é","é"]',
        "label": 1,
    }
    assert convert_files(path, tmp_path / "out", 4, "p", source=options).num_samples == 100


def test_the_type_of_images_is_that_struct(tmp_path):
    features = datasets.Features({"image": datasets.Image(decode=False)})
    rows = {"image": [{"bytes": b"x", "path": "a.jpg"}]}
    datasets.Dataset.from_dict(rows, features=features).to_parquet(tmp_path / "a.parquet")
    options = SourceOptions(columns=ColumnOptions(("image",)))
    (sample,) = open_sample_file(tmp_path / "a.parquet", options).samples()
    assert sample == {"image.bytes": b"x", "image.path": "a.jpg"}
