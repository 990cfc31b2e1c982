"""Iterators that are made and never asked for a batch, as tools make them to look at a loader."""

from trainfeed.loader import DataLoader


def numbers(loader):
    return [n for batch in loader for n in batch["0"].tolist()]


def test_an_iterator_that_gives_nothing_takes_no_epoch():
    with (
        DataLoader(list(range(20)), 4, shuffle=True) as loader,
        DataLoader(list(range(20)), 4, shuffle=True) as other,
    ):
        iter(loader)
        assert loader.due.epoch == 0
        assert numbers(loader) == numbers(other)


def test_an_iterator_that_gives_nothing_does_not_lose_a_state():
    """The rest of the epoch would be left out without a word."""
    with DataLoader(list(range(20)), 4, shuffle=True) as loader:
        batches = iter(loader)
        begun = next(batches)["0"].tolist()
        state = loader.state_dict()
        rest = numbers(batches)
    with DataLoader(list(range(20)), 4, shuffle=True) as loader:
        loader.load_state_dict(state)
        iter(loader)
        assert numbers(loader) == rest
    assert sorted(begun + rest) == list(range(20))


def test_iterators_side_by_side_have_an_epoch_each():
    with DataLoader(list(range(8)), 4, shuffle=True) as loader:
        expected = [numbers(loader), numbers(loader)]
    with DataLoader(list(range(8)), 4, shuffle=True) as loader:
        first, second = iter(loader), iter(loader)
        begun = [next(first)["0"].tolist(), next(second)["0"].tolist()]
    assert begun == [epoch[:4] for epoch in expected]
