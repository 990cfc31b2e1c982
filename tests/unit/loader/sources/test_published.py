"""Published versions through the loader: one, a range, a window with gaps."""

import pytest

from tests.unit.loader.conftest import children
from tests.unit.pipeline.conftest import project
from trainfeed.errors import ConfigError, NotFoundError, WindowIncompleteError
from trainfeed.loader import DataLoader, open_intervals
from trainfeed.readers import open_dataset
from trainfeed.versions import Skip, write_skip

__all__ = ["project"]


@pytest.fixture(autouse=True)
def nothing_left(built):
    """Builds have processes of their own; only what comes after them counts here."""
    before = children()
    yield
    assert children() - before == set()


@pytest.fixture
def built(project):
    for name in ("2024-03-01", "2024-03-02", "2024-03-03"):
        project.prebuilt(name)
    return project


def values(batches):
    return [
        (float(value), int(label))
        for batch in batches
        for value, label in zip(batch["value"], batch["label"], strict=True)
    ]


def opened(built, interval):
    return open_dataset("clicks", interval=interval, split="train", root=built.env.root)


def test_published_samples_come_in_their_order(built):
    dataset = opened(built, "2024-03-01/2024-03-03")
    expected = [(float(s["value"]), int(s["label"])) for s in dataset.reader()()]
    for options in ({}, {"num_threads": 1}, {"num_workers": 1}, {"verify": "never"}):
        with DataLoader(dataset, 7, **options) as loader:
            assert values(loader) == expected
    with DataLoader(dataset, 7, shuffle=True) as loader:
        shuffled = values(loader)
    assert shuffled != expected
    assert sorted(shuffled) == sorted(expected)


def test_states_belong_to_the_versions_they_were_taken_from(built):
    with DataLoader(opened(built, "2024-03-01"), 4, shuffle=True) as loader:
        state = loader.state_dict()
    loader = DataLoader(opened(built, "2024-03-02"), 4, shuffle=True)
    with loader, pytest.raises(ConfigError, match="expected a state of this data set"):
        loader.load_state_dict(state)
    with DataLoader(opened(built, "2024-03-01"), 4, shuffle=True) as loader:
        loader.load_state_dict(state)


def test_a_published_version_that_is_removed_meanwhile_is_named_with_what_to_do(built):
    dataset = opened(built, "2024-03-01")
    with DataLoader(dataset, 4, shuffle=True) as loader:
        for path in dataset.versions[0].shard_paths("train"):
            path.unlink()
        with pytest.raises(NotFoundError, match=r"is gone; a removed version .*\(retention\)"):
            list(loader)


def test_a_window_of_intervals_is_their_union_and_names_its_versions(built):
    """F31."""
    names = ["2024-03-01", "2024-03-02", "2024-03-03"]
    window = open_intervals("clicks", names, split="train", root=built.env.root)
    with DataLoader(window.dataset, 5) as loader:
        found = values(loader)
    days = []
    for name in names:
        with DataLoader(opened(built, name), 5) as loader:
            days += values(loader)
    assert found == days
    assert window.dataset.version == ",".join(f"{name}/g0001" for name in names)
    assert window.missing == ()


def test_a_gap_in_a_window_fails_or_is_skipped(built):
    """F31."""
    names = ["2024-03-02", "2024-03-03", "2024-03-04"]
    options = {"split": "train", "root": built.env.root}
    with pytest.raises(WindowIncompleteError, match=r"lacks 1 of 3 intervals.*: 2024-03-04;"):
        open_intervals("clicks", names, **options)
    window = open_intervals("clicks", names, missing="skip", **options)
    assert window.missing == ("2024-03-04",) == window.dataset.missing
    assert window.dataset.version == "2024-03-02/g0001,2024-03-03/g0001"
    with pytest.raises(NotFoundError, match="no published version of 2024-03-05"):
        open_intervals("clicks", ["2024-03-05"], missing="skip", **options)
    with pytest.raises(ConfigError, match="one of fail, skip, got 'list'"):
        open_intervals("clicks", names, missing="list", **options)
    twice = (
        [names[0], names[0]],
        ["2024-03-01", "2024-03-01/2024-03-02"],
        ["2024-03-03/2024-03-04", "2024-03-04"],
    )
    for no_list in ([], names[0], *twice):
        with pytest.raises(ConfigError, match="expected a list of different intervals"):
            open_intervals("clicks", no_list, missing="skip", **options)


def test_a_window_may_be_of_ranges_and_names_what_was_left_out(built):
    skip = Skip("2024-03-04", "no logs", "2024-03-08T00:00:00Z", None)
    write_skip(built.folder, skip)
    parts = ["2024-03-03/2024-03-04", "2024-03-01"]
    window = open_intervals("clicks", parts, split="train", root=built.env.root)
    assert window.dataset.version == "2024-03-03/g0001,2024-03-01/g0001"
    assert (window.missing, window.skipped) == ((), (skip,))
