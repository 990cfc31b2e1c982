"""Distances compared with what follows from the raw values, within what the bins promise."""

import math
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from tests.unit.versions.drift.counted import distribution_of
from trainfeed.versions.drift.distances import (
    NumberCells,
    cell_counts,
    distances,
    ks_bounds,
    stability_index,
)

RANDOM = np.random.default_rng(5)
QUIET = settings(derandomize=True, deadline=None, suppress_health_check=[HealthCheck.too_slow])
FLOATS = hnp.arrays("<f8", st.integers(1, 60), elements=st.floats(allow_subnormal=False, width=64))


def found(reference, now, dtype="float64", **options):
    pair = (distribution_of(each, dtype, **options) for each in (reference, now))
    return {measure: each.distance for measure, each in distances(*pair).items()}


def true_ks(left, right):
    """The largest difference of the empirical distribution functions."""
    points = np.concatenate([left, right])
    shares = [np.searchsorted(np.sort(each), points, "right") / len(each) for each in (left, right)]
    return float(np.abs(shares[0] - shares[1]).max())


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("dtype", ["float64", "float32", "int32", "int8"])
def test_ks_lies_within_the_bounds_that_the_bins_give(seed, dtype):
    random = np.random.default_rng(seed)
    left = random.normal(20, 30, 900).clip(-120, 120).astype(dtype)
    right = random.normal(20 + 4 * seed, 30, 700).clip(-120, 120).astype(dtype)
    least, most = ks_bounds(distribution_of(left, dtype), distribution_of(right, dtype))
    true = true_ks(left.astype(float), right.astype(float))
    assert least - 1e-9 <= true <= most + 1e-9
    if dtype == "int8":
        assert least == pytest.approx(true)
    assert most - least < 0.2


@given(FLOATS, FLOATS)
@QUIET
def test_ks_of_any_numbers_lies_within_its_bounds(left, right):
    left, right = left[np.isfinite(left)], right[np.isfinite(right)]
    if len(left) and len(right):
        least, most = ks_bounds(distribution_of(left), distribution_of(right))
        assert least - 1e-9 <= true_ks(left, right) <= most + 1e-9


def test_cells_are_deciles_within_a_bin_and_their_counts_exact():
    reference, now = RANDOM.normal(100, 20, 6000), RANDOM.normal(110, 20, 900)
    cells = NumberCells.of(distribution_of(reference))
    counts = cells.counts(distribution_of(reference))
    assert 8 <= len(cells.first) <= 10
    assert counts.sum() == 6000
    # A bin is an eighth of the range between two powers of two.
    ends = cells.last + 2 ** np.floor(np.log2(cells.last)) / 8
    assert (cells.last[1:] > 0).all()
    for values in (reference, now):
        # Values between two cells, where the reference has none, are in the upper one.
        expected = [
            int(((values >= start) & (values < end)).sum()) for start, end in pairwise(ends[1:])
        ]
        assert cells.counts(distribution_of(values))[2 : len(cells.first)].tolist() == expected


def test_psi_is_that_of_the_shares():
    reference = np.repeat([1, 2, 3], [500, 300, 200])
    now = np.repeat([1, 2, 3], [100, 300, 600])
    p = np.array([500.5, 300.5, 200.5]) / 1001.5
    q = np.array([100.5, 300.5, 600.5]) / 1001.5
    expected = float(((p - q) * np.log(p / q)).sum())
    assert found(reference, now, "int64") == {"absent": 0, "psi": pytest.approx(expected)}


def test_a_value_with_a_tenth_of_the_numbers_has_a_cell_of_its_own():
    values = np.concatenate([np.zeros(4000), RANDOM.lognormal(1, 1, 6000)])
    cells = NumberCells.of(distribution_of(values))
    assert (cells.first[0], cells.last[0]) == (0, 0)
    assert cells.counts(distribution_of(values))[0] == 4000
    assert len(cells.first) > 5


def test_a_new_value_between_heavy_ones_is_seen():
    reference = np.repeat([0.0, 10.0], 5000)
    now = np.concatenate([reference[::10], np.full(200, 5.0)])
    counts = cell_counts(distribution_of(reference), distribution_of(now))
    assert counts.tolist() == [[5000, 5000, 0, 0, 0], [500, 500, 200, 0, 0]]
    assert found(reference, now)["psi"] > 0.5


@pytest.mark.parametrize("factor", [1000, 0.001, -1])
def test_another_unit_leaves_the_cells_of_the_reference(factor):
    reference = RANDOM.normal(50, 5, 5000)
    assert found(reference, reference[:900] * factor)["psi"] > 5


@pytest.mark.parametrize(
    ("dtype", "values"),
    [
        ("float64", RANDOM.normal(size=900)),
        ("float32", RANDOM.lognormal(3, 2, 900)),
        ("int64", RANDOM.integers(0, 10_000, 900)),
        ("int8", RANDOM.integers(-100, 100, 900)),
        ("bool", RANDOM.integers(0, 2, 900)),
        ("int32", np.full(900, 7)),
        ("float64", np.full(900, 0.1)),
        ("float64", np.array([math.nan, math.inf, -math.inf] * 3)),
        ("str", [f"t{n % 7}" for n in range(900)]),
        ("bytes", [bytes([n % 250]) for n in range(900)]),
    ],
)
def test_equal_distributions_have_distance_zero(dtype, values):
    distances_found = found(values, values, dtype)
    assert distances_found
    assert all(each == pytest.approx(0, abs=1e-12) for each in distances_found.values())


@given(
    hnp.arrays("<i8", st.integers(1, 40), elements=st.integers(0, 5)),
    hnp.arrays("<i8", st.integers(1, 40), elements=st.integers(0, 5)),
)
@QUIET
def test_the_index_is_symmetric_and_never_negative(left, right):
    counts = [np.bincount(each, minlength=6) for each in (left, right)]
    assert stability_index(*counts) == pytest.approx(stability_index(*counts[::-1]))
    assert stability_index(*counts) >= 0
    assert ks_bounds(distribution_of(left, "int64"), distribution_of(right, "int64")) == (
        pytest.approx(ks_bounds(distribution_of(right, "int64"), distribution_of(left, "int64")))
    )


def test_absent_and_not_finite_values_have_cells_of_their_own():
    reference = [float(n) for n in range(100)]
    now = [*reference[:80], *[None] * 20]
    counts = cell_counts(
        distribution_of(reference, optional=True), distribution_of(now, optional=True)
    )
    assert counts[:, -1].tolist() == [0, 20]
    now = [*reference[:90], *[math.nan] * 10]
    counts = cell_counts(distribution_of(reference), distribution_of(now))
    assert counts[:, -2].tolist() == [0, 10]


def test_texts_that_the_reference_lacks_are_one_category():
    reference = ["a"] * 60 + ["b"] * 40
    now = ["a"] * 60 + ["c"] * 20 + ["d" * 70] * 20
    counts = cell_counts(distribution_of(reference, "str"), distribution_of(now, "str"))
    assert counts.tolist() == [[60, 40, 0, 0, 0], [60, 0, 40, 0, 0]]


def test_nothing_is_compared_with_no_samples():
    assert found(np.array([]), np.array([1.0])) == {}
    assert found(np.array([1.0]), np.array([])) == {}
    assert set(found([None] * 9, [1.0] * 9, optional=True)) == {"absent", "psi"}


def test_few_values_against_many_are_compared_as_numbers():
    reference, now = np.arange(900) % 20, np.arange(900)
    assert set(found(reference, now, "int64")) == {"absent", "psi", "ks", "mean"}
    assert set(found(reference, reference, "int64")) == {"absent", "psi"}


def test_the_mean_sees_a_shift_within_one_bin():
    """Kelvin, years, times: all values in one bin of the histogram."""
    reference, now = RANDOM.normal(2010, 3, 5000), RANDOM.normal(2013, 3, 900)
    measured = found(reference, now)
    assert measured["mean"] == pytest.approx(1, abs=0.15)
    assert max(measured["psi"], measured["ks"]) < 0.05


def test_another_constant_is_as_far_as_can_be_and_rounding_is_not():
    assert found(np.full(900, 5.0), np.full(90, 5.001))["mean"] == 1e6
    parts = np.full(900, 0.1)
    parts[::2] = np.nextafter(0.1, 1)
    assert found(parts, np.full(90, 0.1))["mean"] == 0


@pytest.mark.parametrize("name", ["normal", "heavy", "few", "many", "texts", "label"])
def test_samples_of_the_reference_are_within_what_chance_gives(name):
    random = np.random.default_rng(3)
    population = {
        "normal": random.normal(size=6300),
        "heavy": np.concatenate([np.zeros(3000), random.lognormal(0, 2, 3300)]),
        "few": random.zipf(1.3, 6300) % 60,
        "many": random.integers(0, 65536, 6300),
        "texts": random.zipf(1.2, 6300) % 5000,
        "label": random.integers(0, 2, 6300),
    }[name]
    dtype = "float64" if population.dtype.kind == "f" else "int64"
    if name == "texts":
        dtype, population = "str", np.array([f"text {n}" for n in population])
    values = population.tolist() if dtype == "str" else population
    reference = distribution_of(values, dtype)
    for size in (20, 200, 900):
        for _ in range(30):
            again = random.choice(population, size)
            now = distribution_of(again.tolist() if dtype == "str" else again, dtype)
            for measure, each in distances(reference, now).items():
                # The mean of a few values with a long tail is no normal variable.
                if (name, measure, size) != ("heavy", "mean", 20):
                    assert each.distance <= each.chance, (measure, size)
