"""Batches that a tool makes from the fields of a batch of a loader."""

import copy
import pickle

import numpy as np
import pytest

from trainfeed.errors import LoaderError
from trainfeed.loader import Batch, DataLoader


@pytest.fixture
def batch():
    """The last one of a padded epoch: two rows, one of which counts."""
    with DataLoader(list(range(3)), 2, tail="pad") as loader:
        return list(loader)[-1]


REBUILDS = {
    "a mapping": lambda batch: type(batch)({name: array * 2 for name, array in batch.items()}),
    "pairs": lambda batch: type(batch)((name, array * 2) for name, array in batch.items()),
}


@pytest.mark.parametrize("rebuild", REBUILDS.values(), ids=REBUILDS)
def test_a_tool_may_make_a_batch_of_changed_fields(batch, rebuild):
    made = rebuild(batch)
    assert type(made) is Batch
    assert {name: array.tolist() for name, array in made.items()} == {
        name: (array * 2).tolist() for name, array in batch.items()
    }
    assert made.num_rows == 2


@pytest.mark.parametrize("name", ["state", "standing", "valid", "num_padded"])
def test_what_only_the_loader_knows_of_a_batch_is_never_guessed(batch, name):
    """Rows that only fill a batch would count as samples."""
    made = type(batch)(dict(batch))
    with pytest.raises(LoaderError, match="made from its fields"):
        getattr(made, name)
    again = pickle.loads(pickle.dumps(made))
    assert list(again) == list(batch)
    with pytest.raises(LoaderError, match="made from its fields"):
        getattr(again, name)


def test_a_copy_still_knows_where_the_loader_stood(batch):
    same = copy.copy(batch)
    same.update({name: np.zeros(2) for name in batch})
    assert same.state == batch.state
    assert same.valid.tolist() == [True, False]
