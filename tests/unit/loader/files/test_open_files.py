"""Descriptors: a loader that is not closed frees them when it is collected."""

import gc
import pickle

from tests.unit.loader.conftest import labels, num_fds, num_fds_before, write_images
from trainfeed.loader import DataLoader
from trainfeed.loader.memory import FreshMemory
from trainfeed.loader.order import Span


def test_loaders_that_nobody_closes_give_their_files_back(tmp_path):
    images = write_images(tmp_path, [5] * 12)
    before = num_fds_before()
    for options in ({}, {"shuffle": True}, {"num_threads": 1}):
        assert sorted(labels(DataLoader(images, 10, **options))) == list(range(60))
        gc.collect()
        assert num_fds() == before


def test_reading_after_close_opens_files_that_are_given_back_too(images):
    before = num_fds_before()
    loader = DataLoader(images, 10)
    loader.close()
    assert labels(loader) == list(range(100))
    assert num_fds() > before
    del loader
    gc.collect()
    assert num_fds() == before


def test_a_copy_of_a_source_closes_its_own_files(images):
    before = num_fds_before()
    source = images.source()
    sources = [source, pickle.loads(pickle.dumps(source))]
    for one in sources:
        assert one.load([Span(0, 0, 1)], slice(0, 1), FreshMemory()).num_samples == 1
    assert num_fds() == before + 2
    del source, sources, one
    gc.collect()
    assert num_fds() == before
