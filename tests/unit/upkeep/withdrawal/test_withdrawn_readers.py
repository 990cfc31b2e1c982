"""Whoever names a withdrawn generation learns who withdrew it and why, and reads it on purpose."""

import logging
from types import SimpleNamespace

import pytest

from tests.unit.upkeep.withdrawal.conftest import ADA, DAY
from trainfeed.errors import ConfigError, NotFoundError, WithdrawnError
from trainfeed.look.outdated import find_outdated
from trainfeed.readers import open_dataset
from trainfeed.training.launch import require_readable
from trainfeed.upkeep.withdrawal import withdraw


@pytest.fixture
def hidden(twice):
    """g0002 is withdrawn, g0001 is for readers."""
    withdraw(twice.env, "clicks", DAY, None, ADA)
    return twice


def read(project, **options):
    name = options.pop("name", "clicks")
    if name == "clicks":
        options |= {"interval": DAY, "root": project.env.root}
    return open_dataset(name, split="train", **options)


@pytest.mark.parametrize("by", ["number", "path", "link"])
def test_a_withdrawn_generation_is_refused_or_read_with_a_warning(hidden, caplog, tmp_path, by):
    place = hidden.folder.version(DAY, 2)
    (tmp_path / "link").symlink_to(place)
    asked = {
        "number": {"generation": "g0002"},
        "path": {"name": place},
        "link": {"name": tmp_path / "link"},
    }[by]
    with pytest.raises(WithdrawnError, match=r"by ada .*: labels of yesterday.*trainfeed restore"):
        read(hidden, **asked)
    with caplog.at_level(logging.WARNING):
        assert read(hidden, **asked, withdrawn="warn").num_samples > 0
    assert "labels of yesterday" in caplog.text


def test_an_unknown_policy_is_refused_also_where_nothing_is_withdrawn(twice):
    with pytest.raises(ConfigError, match="fail or warn"):
        read(twice, generation="g0001", withdrawn="yes")


def test_an_interval_without_a_version_says_who_withdrew_the_last(hidden):
    withdraw(hidden.env, "clicks", DAY, 1, ADA)
    with pytest.raises(NotFoundError, match="labels of yesterday"):
        read(hidden)


def test_a_build_that_would_be_refused_is_withdrawn_and_not_outdated(hidden):
    report = find_outdated(hidden.spec, hidden.env)
    (found,) = report.intervals
    assert (found.state, found.generation, report.outdated) == ("withdrawn", 1, [])
    assert "labels of yesterday" in found.why
    assert "trainfeed restore clicks/2024-03-01/g0002" in found.why


def test_a_job_whose_version_was_withdrawn_meanwhile_does_not_start(twice):
    version = SimpleNamespace(interval=DAY, generation="g0002")
    job = SimpleNamespace(name="job", versions=[version])
    require_readable(job, twice.folder)
    withdraw(twice.env, "clicks", DAY, None, ADA)
    with pytest.raises(WithdrawnError, match="nothing was started"):
        require_readable(job, twice.folder)
