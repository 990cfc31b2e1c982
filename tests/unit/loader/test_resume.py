"""Any state restores the rest of the run, under any other cut of it."""

import itertools
import json
import subprocess
import sys
from pathlib import Path

import pytest

import trainfeed
from tests.unit.loader.conftest import labels, write_images
from tests.unit.loader.datasets import Offset, Squares
from trainfeed.errors import ConfigError
from trainfeed.loader import DataLoader, LoaderState

TOTAL = 41
SETTINGS = {"shuffle": True, "seed": 5}


def load(**options):
    return DataLoader(Squares(TOTAL), options.pop("batch_size", 4), **(SETTINGS | options))


def reference(num_epochs=3, **options):
    """Return the samples of whole epochs, one list per epoch."""
    with load(**options) as loader:
        return [labels(loader) for _ in range(num_epochs)]


def global_rest(state, world_size, **options):
    """Return what all ranks together read of an epoch from a state on, in the global order."""
    loaders = [load(rank=rank, world_size=world_size, **options) for rank in range(world_size)]
    queues = []
    for loader in loaders:
        loader.load_state_dict(state)
        queues.append(iter(labels(loader)))
        loader.close()
    position = state["position"]
    rest = [next(queues[p % world_size]) for p in range(position, TOTAL)]
    assert all(next(queue, None) is None for queue in queues)
    return rest


def states(**options):
    """Return the states before the first batch and after each, over two epochs."""
    with load(**options) as loader:
        found = [loader.state_dict()]
        for _ in range(2):
            for batch in loader:
                assert batch.state.to_json() == loader.state_dict()
                found.append(loader.state_dict())
        return found


@pytest.mark.parametrize("shuffle", [True, False])
def test_every_state_restores_the_rest_of_the_run(shuffle):
    """LD-12: every cut point, including the first, the last and the end of an epoch."""
    epochs = reference(shuffle=shuffle)
    for state in states(shuffle=shuffle):
        with load(shuffle=shuffle) as loader:
            loader.load_state_dict(json.loads(json.dumps(state)))
            found = [labels(loader) for _ in range(2)]
        epoch, position = state["epoch"], state["position"]
        if epoch == 2:
            assert position == 0
            continue
        assert found == [epochs[epoch][position:], epochs[epoch + 1]]


@pytest.mark.parametrize("world_before", [1, 2, 3])
@pytest.mark.parametrize("world_after", [1, 2, 3, 4, 5])
def test_states_restore_under_other_ranks_and_batch_sizes(world_before, world_after):
    """LD-13: the rest of the global sequence is the same."""
    with load(world_size=world_before) as before, load() as alone:
        assert before.state_dict()["lanes"] == (18 if world_before == 3 else 16)
        alone.load_state_dict(before.state_dict())
        whole = labels(alone)
    assert (whole == reference()[0]) == (world_before != 3)
    for state in states(world_size=world_before)[:12]:
        if state["epoch"]:
            continue
        for batch_size, num_threads in ((4, 0), (1, 2), (7, 1), (50, 0)):
            rest = global_rest(state, world_after, batch_size=batch_size, num_threads=num_threads)
            assert rest == whole[state["position"] :]


def test_the_order_does_not_depend_on_how_it_is_read():
    whole = reference()
    for options in (
        {"num_threads": 1},
        {"num_threads": 3, "prefetch": 1},
        {"num_threads": 2, "prefetch": 20},
        {"copy": True},
        {"batch_size": 1},
        {"batch_size": 13},
        {"batch_size": 100},
    ):
        assert reference(**options) == whole


def test_prefetching_never_runs_ahead_of_the_state():
    with load(num_threads=2, prefetch=16) as loader:
        for number, _ in zip(range(1, 6), loader, strict=False):
            assert loader.state_dict()["position"] == 4 * number


def test_after_the_last_batch_the_state_is_the_next_epoch():
    with load() as loader:
        for _ in loader:
            state = loader.state_dict()
        assert (state["epoch"], state["position"]) == (1, 0)
        assert loader.state_dict() == state


def test_a_dropped_tail_ends_the_epoch():
    with load(tail="drop") as loader:
        assert len(labels(loader)) == 40
        assert loader.state_dict()["epoch"] == 1
        loader.load_state_dict(loader.state_dict() | {"epoch": 0, "position": 40})
        assert list(loader) == []
        assert (loader.state_dict()["epoch"], loader.state_dict()["position"]) == (1, 0)


def test_a_state_is_small_json():
    with DataLoader(Squares(TOTAL), 4, shuffle=True, seed=-(2**60)) as loader:
        loader.set_epoch(2**30)
        next(iter(loader))
        assert len(json.dumps(loader.state_dict())) < 200
        assert LoaderState.from_json(loader.state_dict()).to_json() == loader.state_dict()


def test_states_restore_in_new_processes_from_files(images, tmp_path):
    """Every batch of a set of files, each state restored by a process that never saw the run."""
    with DataLoader(images, 7, shuffle=True, seed=3) as loader:
        found = [loader.state_dict()]
        whole = []
        for batch in loader:
            whole += labels([batch])
            found.append(loader.state_dict())
    (tmp_path / "states.json").write_text(json.dumps(found[:-1]))
    script = Path(__file__).parent / "restore.py"
    output = subprocess.run(
        [sys.executable, script, tmp_path], check=True, capture_output=True, text=True
    ).stdout
    for state, rest in zip(found[:-1], map(json.loads, output.splitlines()), strict=True):
        assert rest == whole[state["position"] :]


def test_workers_restore_every_state_of_files(images):
    """LD-12 with processes: the same workers serve one restored pass after another."""
    with DataLoader(images, 9, shuffle=True, seed=3) as loader:
        found, whole = [loader.state_dict()], []
        for batch in loader:
            whole += labels([batch])
            found.append(loader.state_dict())
    for num_workers, batch_size in ((1, 9), (2, 5)):
        with DataLoader(
            images, batch_size, shuffle=True, seed=3, num_workers=num_workers
        ) as loader:
            for state in found[:-1]:
                loader.load_state_dict(state)
                assert labels(loader) == whole[state["position"] :]


def test_an_iterator_that_is_left_early_ends_its_epoch():
    whole = reference()
    with load() as loader:
        next(iter(loader))
        assert labels(loader) == whole[1]


def test_set_epoch_starts_an_epoch_from_its_beginning():
    whole = reference()
    with load() as loader:
        loader.set_epoch(2)
        assert labels(loader) == whole[2]
        loader.set_epoch(0)
        assert labels(loader) == whole[0]
        with pytest.raises(ConfigError, match="expected epoch as a whole number from 0 "):
            loader.set_epoch(-1)


def test_two_iterators_do_not_disturb_each_other():
    whole = reference()
    with load() as loader:
        pairs = list(itertools.zip_longest(iter(loader), iter(loader)))
        assert labels(pair[0] for pair in pairs) == whole[0]
        assert labels(pair[1] for pair in pairs) == whole[1]


def test_states_of_something_else_are_refused():
    """LD-14."""
    with load() as loader:
        state = loader.state_dict()
        with pytest.raises(ConfigError, match="expected a state of this data set"):
            loader.load_state_dict(state | {"digest": "0" * 16})
        with pytest.raises(ConfigError, match="expected a state of seed 5, got one of seed 6"):
            loader.load_state_dict(state | {"seed": 6})
        with pytest.raises(ConfigError, match="expected a state of a shuffled order"):
            loader.load_state_dict(state | {"lanes": 1, "window": 0})
        with pytest.raises(ConfigError, match="expected a position up to 41"):
            loader.load_state_dict(state | {"position": 42})
        assert len(labels(loader)) == TOTAL
    other = DataLoader(Squares(TOTAL + 1), 4, **SETTINGS)
    with other, pytest.raises(ConfigError, match="open the versions that it was taken from"):
        other.load_state_dict(state)


@pytest.mark.parametrize(
    "broken",
    [
        None,
        [],
        "x",
        {},
        {"version": 2},
        {"epoch": -1},
        {"epoch": 1.0},
        {"epoch": True},
        {"position": "3"},
        {"position": 2**70},
        {"digest": 7},
        {"lanes": 0},
        {"lanes": 2**40},
        {"weights": {}},
        {"weights": [[1]]},
        {"surplus": 1},
    ],
)
def test_hostile_states_are_refused(broken):
    """LD-14."""
    with load() as loader:
        state = loader.state_dict() | broken if isinstance(broken, dict) and broken else broken
        with pytest.raises(ConfigError):
            loader.load_state_dict(state)
        assert len(labels(loader)) == TOTAL


def test_a_warning_says_when_ranks_read_more_than_their_share(caplog):
    with load(world_size=5) as loader:
        assert not caplog.records
        state = loader.state_dict() | {"lanes": 16}
        loader.load_state_dict(state)
    assert "5 ranks share 16 lanes" in caplog.text


def test_so_does_one_in_the_order_of_files(tmp_path, caplog):
    files = write_images(tmp_path, [30])
    for dataset, options in (
        (files, {}),
        (files, {"world_size": 2, "shuffle": True}),
        (Squares(TOTAL), {"world_size": 2}),
    ):
        with DataLoader(dataset, 4, **options):
            assert not caplog.records
    with DataLoader(files, 4, world_size=2) as loader:
        assert "every rank reads and decodes all" in caplog.text
        caplog.clear()
        loader.load_state_dict(loader.state_dict())
        assert not caplog.records


def global_order(world_size, **options):
    """Return the samples of an epoch, batch by batch over all ranks."""
    ranks = []
    for rank in range(world_size):
        with load(rank=rank, world_size=world_size, batch_size=1, **options) as loader:
            ranks.append([labels([batch]) for batch in loader])
    return [label for batches in zip(*ranks, strict=True) for part in batches for label in part]


def test_lanes_that_many_numbers_of_ranks_divide_give_all_of_them_one_order():
    alone = global_order(1, lanes=12)
    assert sorted(alone) == sorted(reference()[0])
    for world_size in (2, 3, 4, 6, 12):
        assert global_order(world_size, lanes=12) == alone


def test_the_first_number_of_ranks_enters_the_order_unless_lanes_are_set():
    assert global_order(2) == global_order(4) == global_order(1)
    assert global_order(3) != global_order(1)
    assert global_order(3) == global_order(3, lanes=18) == global_order(1, lanes=18)


def test_lanes_are_part_of_a_state_and_another_number_is_refused():
    with load(lanes=12) as loader:
        state = loader.state_dict()
    assert state["lanes"] == 12
    with load() as loader, load(lanes=12, world_size=5) as same:
        loader.load_state_dict(state)
        assert labels(loader) == global_order(1, lanes=12)
        same.load_state_dict(state)
    message = "expected a state of 18 lanes, got one of 12; leave lanes out to go on in the order"
    with load(lanes=18) as loader, pytest.raises(ConfigError, match=message):
        loader.load_state_dict(state)


def test_a_mixture_has_the_lanes_that_were_asked_for():
    mixture = trainfeed.mix({Squares(50): 0.5, Offset(50, 100): 0.5}, seed=1)
    orders = []
    for world_size in (1, 2, 3):
        ranks = [
            DataLoader(mixture, 1, shuffle=True, rank=rank, world_size=world_size, lanes=6)
            for rank in range(world_size)
        ]
        assert ranks[0].state_dict()["lanes"] == 6
        steps = zip(*ranks, strict=True)
        orders.append([label for step in steps for batch in step for label in labels([batch])])
    assert orders[0] == orders[1] == orders[2]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"shuffle": True, "lanes": 0}, "expected lanes as a whole number from 1 to 65536, got 0"),
        ({"shuffle": True, "lanes": 1.5}, "expected lanes as a whole number"),
        ({"shuffle": True, "lanes": 1 << 17}, "expected lanes as a whole number from 1 to 65536"),
        ({"lanes": 16}, "expected lanes with shuffle=True only, got 16"),
    ],
)
def test_lanes_that_no_order_has_are_refused(options, message):
    with pytest.raises(ConfigError, match=message):
        DataLoader(Squares(10), 2, **options)
