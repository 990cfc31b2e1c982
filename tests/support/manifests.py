"""Manifests: what tests make by hand, with an account that agrees, and what they look at."""

from collections import Counter


def accounted(values):
    """Return values of a manifest with an account: every source has as many samples as there are.

    The sources are those of the inputs, or else inputs are made for the sources.
    """
    inputs = values["inputs"] or {each: {"start": 0, "end": 1 << 40} for each in values["sources"]}
    samples = sum(split["samples"] for split in values["splits"].values())
    ledger = {}
    for number, source in enumerate(inputs):
        leaf = {"records": 0, "bytes": 0, "l1": "0" * 16, "l2": "0" * 16}
        sums = {"samples": 0 if number else samples, "s1": "0" * 16, "s2": "0" * 16}
        ledger[source] = {"read": leaf, "valid": leaf | sums, "quarantined": leaf, "filtered": {}}
    return {**values, "inputs": inputs, "sources": sorted(inputs), "ledger": ledger}


def read_by_member(manifest):
    """How many records a version of a union has read of each member."""
    found = Counter()
    for source, account in manifest.ledger.items():
        found[source.partition("/")[0]] += account["read"]["records"]
    return found
