"""Values of map-style samples: the same however they are loaded, or refused."""

import numpy as np
import pytest

from tests.unit.loader.datasets import Chosen, Pairs
from trainfeed.errors import SampleShapeError
from trainfeed.loader import DataLoader

HOW = [{}, {"num_threads": 1}, {"num_workers": 1}]


@pytest.mark.parametrize("options", HOW)
def test_structures_keep_their_fields(options):
    with DataLoader(Pairs(5), 3, **options) as loader:
        first, second = (batch["pair"] for batch in loader)
    assert first.dtype == second.dtype == np.dtype([("a", "i4"), ("b", ">f8")])
    assert first.tolist() + second.tolist() == [(i, i / 2) for i in range(5)]


@pytest.mark.parametrize("options", HOW)
def test_samples_before_one_of_another_shape_are_handed_over(options):
    samples = [{"x": np.zeros(3 if i == 20 else 2), "label": i} for i in range(40)]
    with DataLoader(Chosen(samples), 4, **options) as loader:
        found = []
        with pytest.raises(SampleShapeError, match=r"'x': .* float64\(3,\)") as caught:
            found.extend(label for batch in loader for label in batch["label"].tolist())
        assert found == list(range(20))
        assert loader.state_dict()["position"] == 20
    assert "sample 20 of Chosen" in "".join(caught.value.__notes__)


@pytest.mark.parametrize("samples", [[{"y": None}, {"y": 3}], [{"y": 3}, {"y": None}]])
@pytest.mark.parametrize("window_samples", [1, 2])
def test_none_beside_numbers_is_refused_in_any_order(samples, window_samples, monkeypatch):
    monkeypatch.setattr("trainfeed.loader.map_source._NATURAL_SAMPLES", window_samples)
    with DataLoader(samples, 2) as loader, pytest.raises(SampleShapeError, match="'y'"):
        next(iter(loader))


def test_none_beside_bytes_and_texts_is_fine():
    samples = [{"x": None, "y": "a"}, {"x": b"b", "y": None}]
    with DataLoader(samples, 2) as loader:
        batch = next(iter(loader))
    assert (batch["x"].tolist(), batch["y"].tolist()) == ([None, b"b"], ["a", None])


def test_a_masked_array_is_no_value():
    masked = np.ma.MaskedArray([1, 2], [False, True])
    with (
        DataLoader([{"a": masked}], 1) as loader,
        pytest.raises(SampleShapeError, match="a masked array"),
    ):
        next(iter(loader))


def test_lists_of_several_lengths_are_no_value():
    with (
        DataLoader([{"a": [[1, 2], [3]]}], 1) as loader,
        pytest.raises(SampleShapeError, match=r"expected lists of equal lengths .*pad them"),
    ):
        next(iter(loader))


@pytest.mark.parametrize("nothing", [{}, ()])
def test_samples_without_fields_are_refused(nothing):
    for dataset in ([nothing, nothing], [nothing, nothing].__iter__):
        with (
            DataLoader(dataset, 2) as loader,
            pytest.raises(SampleShapeError, match="expected at least one field"),
        ):
            next(iter(loader))
