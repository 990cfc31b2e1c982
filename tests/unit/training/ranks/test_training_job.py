"""Loaders of a job: on its rank, at the place of its checkpoint."""

import pytest

from tests.unit.training.points import NUM_POINTS, job_in, writer
from trainfeed.errors import ConfigError


def numbers(batches):
    return [int(x) for batch in batches for x in batch["x"]]


def whole_order(home, epochs=2, **options):
    with job_in(home).loader("train", batch_size=4, **options) as loader:
        return [numbers(loader) for _ in range(epochs)]


@pytest.mark.parametrize("loader_first", [True, False])
def test_a_loader_goes_on_where_that_of_the_checkpoint_stood(tmp_path, loader_first):
    order = whole_order(tmp_path / "whole")
    job = job_in(tmp_path)
    loader = job.loader("train", batch_size=4)
    for number, _ in enumerate(loader):
        if number == 4:
            job.save(5, writer(1))
            break
    again = job_in(tmp_path)
    if loader_first:
        loader = again.loader("train", batch_size=4)
        assert again.restore().samples == 20
    else:
        assert again.restore().samples == 20
        loader = again.loader("train", batch_size=4)
    assert [numbers(loader), numbers(loader)] == [order[0][20:], order[1]]


def test_only_the_first_loader_of_a_split_begins_at_the_checkpoint(tmp_path):
    job = job_in(tmp_path)
    next(iter(job.loader("train", batch_size=4)))
    job.save(1, writer(1))
    again = job_in(tmp_path)
    again.restore()
    assert len(numbers(again.loader("train", batch_size=4))) == NUM_POINTS - 4
    assert len(numbers(again.loader("train", batch_size=4))) == NUM_POINTS


def test_without_restore_a_loader_begins_at_the_start(tmp_path):
    job = job_in(tmp_path)
    next(iter(job.loader("train", batch_size=4)))
    job.save(1, writer(1))
    assert len(numbers(job_in(tmp_path).loader("train", batch_size=4))) == NUM_POINTS


@pytest.mark.parametrize("world_size", [2, 3])
def test_ranks_share_an_epoch_and_go_on_together(tmp_path, world_size):
    jobs = [job_in(tmp_path, rank, ranks=world_size) for rank in range(world_size)]
    loaders = [job.loader("train", batch_size=4) for job in jobs]
    seen = []
    for loader in loaders:
        seen += numbers(batch for _, batch in zip(range(2), loader, strict=False))
    jobs[0].save(2, writer(1))
    for rank in range(world_size):
        again = job_in(tmp_path, rank, ranks=world_size)
        assert again.restore().samples == 8 * world_size
        seen += numbers(again.loader("train", batch_size=4))
    assert sorted(seen) == list(range(NUM_POINTS))


def test_a_stretch_is_left_out_and_counted_as_metrics_count(tmp_path):
    order = whole_order(tmp_path / "whole", 1)[0]
    job = job_in(tmp_path)
    loader = job.loader("train", batch_size=4, skip={"from": 8, "to": 20})
    found = []
    for step, batch in enumerate(loader):
        found += numbers([batch])
        job.log_metrics(step, loss=0.0)
        if step == 2:
            job.save(step, writer(1))
            break
    assert found == order[:8] + order[20:24]
    again = job_in(tmp_path)
    assert again.restore().samples == 24
    # Told nothing, it leaves the stretch out all the same.
    rest = again.loader("train", batch_size=4)
    assert rest.state_dict()["skips"] == [[8, 20]]
    assert numbers(rest) == order[24:]


@pytest.mark.parametrize("option", [{"seed": 3}, {"rank": 0}, {"world_size": 1}])
def test_what_is_the_jobs_is_not_a_loaders(tmp_path, option):
    with pytest.raises(ConfigError, match=f"expected no {next(iter(option))} for a loader"):
        job_in(tmp_path).loader("train", batch_size=4, **option)


def test_the_seed_of_the_job_decides_the_order(tmp_path):
    first, second = (
        numbers(job_in(tmp_path, seed=seed).loader("train", batch_size=4)) for seed in (7, 8)
    )
    assert first != second
    assert first == whole_order(tmp_path, 1)[0]
