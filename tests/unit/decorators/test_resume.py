"""resumable: every cut of a pass, gone on with in a new pipeline, gives the rest."""

import itertools
import json

import numpy as np
import pytest

from trainfeed.decorators import batch, buffered, chain, map_readers, resumable, shuffle
from trainfeed.decorators import xmap_readers as xmap
from trainfeed.readers import np_array

PARTS = [np.arange(start, stop) for start, stop in itertools.pairwise([0, 5, 6, 20, 33])]


def samples():
    return itertools.chain(*PARTS)


PIPELINES = {
    "plain": lambda: samples,
    "shuffled ahead": lambda: buffered(shuffle(samples, 7), 5),
    "batches": lambda: buffered(batch(xmap(abs, shuffle(samples, 9), 2, 4, True), 4), 2),
    "blocks": lambda: shuffle(chain(*map(np_array, PARTS)), 10),
    "batches of blocks": lambda: buffered(batch(shuffle(chain(*map(np_array, PARTS)), 10), 4), 3),
    "rows mapped": lambda: map_readers(abs, shuffle(chain(*map(np_array, PARTS)), 10)),
}


def plain(items):
    return [item.tolist() if hasattr(item, "tolist") else item for item in items]


@pytest.mark.parametrize("name", PIPELINES)
def test_every_cut_of_two_passes_can_be_gone_on_with(name):
    whole = resumable(PIPELINES[name]())
    passes = [plain(whole()) for _ in range(3)]
    for epoch in range(2):
        for cut in range(len(passes[epoch])):
            first = resumable(PIPELINES[name]())
            first.set_epoch(epoch)
            taken = first()
            assert plain(itertools.islice(taken, cut)) == passes[epoch][:cut]
            state = json.loads(json.dumps(first.state_dict()))
            taken.close()
            second = resumable(PIPELINES[name]())
            second.load_state_dict(state)
            assert second.state_dict() == state
            assert plain(second()) == passes[epoch][cut:]
            assert plain(second()) == passes[epoch + 1]


def test_the_end_of_a_pass_is_the_beginning_of_the_next():
    reader = resumable(shuffle(samples, 9))
    list(reader())
    assert reader.state_dict() == {"epoch": 1, "position": 0}
    assert len(json.dumps(reader.state_dict())) < 200


def test_blocks_count_their_rows_and_go_on_inside():
    reader = resumable(chain(*map(np_array, PARTS)))
    blocks = reader.blocks()
    next(blocks)
    next(blocks)
    assert reader.state_dict() == {"epoch": 0, "position": 6}
    blocks.close()
    other = resumable(chain(*map(np_array, PARTS)))
    other.load_state_dict({"epoch": 0, "position": 8})
    assert next(other.blocks())["value"].tolist() == list(range(8, 20))


def test_what_was_read_ahead_does_not_count():
    reader = resumable(buffered(samples, 30))
    taken = reader()
    next(taken)
    assert reader.state_dict()["position"] == 1
    taken.close()


def test_a_pass_after_one_that_was_left_is_the_next_one():
    reader = resumable(shuffle(samples, 9))
    for _ in reader():
        break
    assert plain(reader()) == plain(pass_number(1))


def pass_number(epoch):
    reader = shuffle(samples, 9)
    reader.set_epoch(epoch)
    return reader()


@pytest.mark.parametrize(
    "state",
    [{}, None, "{}", {"epoch": 1}, {"epoch": -1, "position": 0}, {"epoch": 0, "position": "x"}],
)
def test_what_is_no_state_is_refused(state):
    with pytest.raises(ValueError, match="expected"):
        resumable(samples).load_state_dict(state)
