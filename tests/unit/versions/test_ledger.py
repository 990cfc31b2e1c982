"""The ledger: vectors, and the faults that it must notice."""

import numpy as np
import pytest

from trainfeed.versions import Leaf, Ledger, SourceLedger, ValidLeaf
from trainfeed.versions.order import source_hash

SOURCE = source_hash("kafka:flights/0")


def leaf(offsets, num_bytes=0):
    return Leaf.of(SOURCE, np.array(offsets, dtype=np.int64), num_bytes)


def test_the_sums_of_a_thousand_positions_equal_the_vectors():
    value = leaf(range(1000)).to_json()
    assert (value["l1"], value["l2"]) == ("4b7f3ed2b5753812", "d5b237e8f5b2bb7d")


def test_leaves_add_up_in_any_order():
    assert leaf([1, 2]) + leaf([3]) == leaf([3, 1]) + leaf([2]) == leaf([1, 2, 3])


@pytest.mark.parametrize("other", [[1, 2], [1, 2, 3, 3], [1, 2, 4], [1, 1, 3]])
def test_a_lost_doubled_or_swapped_record_changes_the_leaf(other):
    assert leaf(other) != leaf([1, 2, 3])


def test_a_doubled_pair_is_noticed():
    # XOR would hide it: both hashes would vanish from the sum.
    assert leaf([1, 2, 2, 3, 3]).l1 != leaf([1]).l1


def test_a_record_with_two_samples_counts_once():
    offsets, ordinals = np.array([4, 4, 5]), np.array([0, 1, 0])
    valid = ValidLeaf.of(SOURCE, offsets, ordinals, 10)
    assert valid.leaf == leaf([4, 5], 10)
    assert valid.samples == 3
    assert valid != ValidLeaf.of(SOURCE, offsets[:2], ordinals[:2], 10)


def test_an_unaccounted_record_is_named_with_both_sides():
    account = SourceLedger(leaf([1, 2, 3]), quarantined=leaf([1]), filtered={"x": leaf([3])})
    ledger = Ledger({"kafka:flights/0": account})
    (line,) = ledger.imbalances()
    assert "kafka:flights/0" in line
    assert "'records': 3" in line
    assert "'records': 2" in line


def test_a_balanced_ledger_survives_json_and_addition():
    valid = ValidLeaf.of(SOURCE, np.array([1]), np.array([0]), 7)
    part = Ledger(
        {"s": SourceLedger(leaf([1, 2, 3], 9), valid, leaf([2], 1), {"cancelled": leaf([3], 1)})}
    )
    assert part.imbalances() == []
    assert Ledger.from_json(part.to_json()) == part
    total = Ledger.total([part, {"s": SourceLedger(leaf([9]), filtered={"empty": leaf([9])})}])
    assert total.imbalances() == []
    assert sorted(total["s"].filtered) == ["cancelled", "empty"]
