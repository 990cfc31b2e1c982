"""A fork has a copy of a pass that is under way, and must neither go on with it nor disturb it."""

import os

import pytest

from tests.unit.loader.datasets import Squares
from trainfeed.compat.paddle.loading import GeneratorLoader
from trainfeed.decorators import buffered, multiprocess_reader, xmap_readers
from trainfeed.errors import LoaderError
from trainfeed.loader import DataLoader


def numbers():
    yield from range(400)


def refused_in_a_fork(samples):
    """Go on with an iterator in a fork; return whether that is refused at once."""
    pid = os.fork()
    if pid == 0:
        try:
            for _ in samples:
                pass
        except LoaderError as error:
            os._exit(0 if "which began it" in str(error) else 2)
        finally:
            os._exit(1)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0


@pytest.mark.parametrize("options", [{"num_threads": 1}, {"num_workers": 1}])
def test_a_loader_goes_on_where_it_began_and_only_there(options):
    with DataLoader(Squares(400), 8, prefetch=2, **options) as loader:
        batches = iter(loader)
        found = next(batches)["label"].tolist()
        assert refused_in_a_fork(batches)
        for batch in batches:
            found += batch["label"].tolist()
    assert found == list(range(400))


READERS = {
    "buffered": buffered(numbers, 2),
    "threads": xmap_readers(abs, numbers, 1, 2, order=True),
    "processes": xmap_readers(abs, numbers, 1, 2, order=True, use_processes=True),
    "process": multiprocess_reader([numbers], queue_size=2),
    "iterable": lambda: (batch["0"][0] for batch in DataLoader(numbers, num_threads=1)),
    "generator": lambda: (
        columns[0][0]
        for columns in GeneratorLoader.from_generator(
            capacity=2, use_multiprocess=True
        ).set_sample_generator(numbers, 1)
    ),
}


@pytest.mark.parametrize("name", READERS)
def test_a_reader_goes_on_where_it_began_and_only_there(name):
    samples = iter(READERS[name]())
    found = [next(samples)]
    assert refused_in_a_fork(samples)
    assert [*found, *samples] == list(range(400))
