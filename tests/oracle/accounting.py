"""Compares published versions with the ledger that their producer kept.

Every acknowledged event of a version's interval must be there once, in its own form: a sample with
its label, a quarantined line with its bytes, or one of the filtered. Imports nothing of trainfeed.

    python -m tests.oracle.accounting LEDGER.sqlite VERSION_FOLDER…
"""

from __future__ import annotations

import hashlib
import json
import sqlite3
import sys
from collections import Counter, defaultdict
from contextlib import closing
from datetime import datetime

import xxhash

from tests.oracle.independent_reader import Version, parse_sample, require

MASK, GOLDEN = (1 << 64) - 1, 0x9E3779B97F4A7C15
SEEDS = (0x6C65646765720001, 0x6C65646765720002)


def mix(z):
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9 & MASK
    z = (z ^ z >> 27) * 0x94D049BB133111EB & MASK
    return z ^ z >> 31


def position_hash(seed, source_hash, offset, ordinal=0):
    by_source = mix(mix(seed + GOLDEN & MASK) ^ source_hash)
    return mix(mix(by_source + offset * GOLDEN & MASK) ^ ordinal)


def sums(source, positions):
    """Return count and the two sums of a ledger leaf over ``(offset, ordinal)``."""
    number = xxhash.xxh3_64_intdigest(source.encode())
    totals = (sum(position_hash(seed, number, *p) for p in positions) & MASK for seed in SEEDS)
    return len(positions), *(f"{total:016x}" for total in totals)


def check_manifest_ledger(version):
    """Recompute what positions and quarantine prove, and that everything read is accounted for."""
    ledger, summary = version.manifest["ledger"], version.manifest["quarantine"]
    require(sorted(ledger) == version.manifest["sources"], f"{version.folder}: ledger sources")
    reasons = Counter(row["reason"] for row in version.quarantine)
    same = (summary["records"], summary["reasons"]) == (reasons.total(), reasons)
    require(same, f"{version.folder}: quarantine holds {dict(reasons)}")
    for source, leaves in ledger.items():
        samples = [(offset, n) for s, offset, n, _ in version.samples if s == source]
        for kind, keys, positions in (
            ("valid", ("records", "l1", "l2"), [p for p in samples if p[1] == 0]),
            ("valid", ("samples", "s1", "s2"), samples),
            ("quarantined", ("records", "l1", "l2"),
             [(row["offset"], 0) for row in version.quarantine if row["source"] == source]),
        ):  # fmt: skip
            same = tuple(leaves[kind][key] for key in keys) == sums(source, positions)
            require(same, f"{version.folder}: ledger of {source}: {kind} {keys[0]}")
        parts = [leaves["valid"], leaves["quarantined"], *leaves["filtered"].values()]
        for key, base in (("records", 10), ("bytes", 10), ("l1", 16), ("l2", 16)):
            total = sum(int(str(part[key]), base) for part in parts) & MASK
            read = int(str(leaves["read"][key]), base)
            require(read == total, f"{version.folder}: ledger of {source}: read {key}")


def acknowledged(ledger, interval):
    """Return (source, offset) → event, for the events stamped in a manifest's interval."""
    span = [datetime.fromisoformat(interval[key]).timestamp() * 1000 for key in ("start", "end")]
    with closing(sqlite3.connect(f"file:{ledger}?mode=ro", uri=True)) as database:
        database.row_factory = sqlite3.Row
        (topic,) = [row["name"] for row in database.execute("SELECT name FROM topic")]
        query = "SELECT * FROM events WHERE timestamp_ms >= ? AND timestamp_ms < ?"
        rows = database.execute(query, span).fetchall()
    return {(f"kafka:{topic}/{row['partition']}", row["offset"]): row for row in rows}


def compare(version, events):
    """Return counts of one version against its events."""
    samples = Counter((source, offset, n) for source, offset, n, _ in version.samples)
    valid = {position[:2] for position in samples}
    rejected = Counter((row["source"], row["offset"]) for row in version.quarantine)
    meant = defaultdict(set)
    for position, event in events.items():
        meant[event["fate"]].add(position)
    counts = Counter(
        events=len(events),
        samples=samples.total(),
        quarantined=rejected.total(),
        planted=sum(event["planted"] is not None for event in events.values()),
        doubled=sum(n - 1 for n in (*samples.values(), *rejected.values()))
        + len(valid & rejected.keys()),
        alien=len((valid | rejected.keys()) - events.keys()),
        lost=len((meant["sample"] | meant["quarantined"]) - valid - rejected.keys()),
        misjudged=len(meant["sample"] & rejected.keys()) + len(valid & meant["quarantined"]),
        altered=sum(is_altered(version, events.get(s[:2]), s[3]) for s in version.samples)
        + sum(
            hashlib.sha256(row["raw"]).hexdigest() != events[position]["sha256"]
            for row in version.quarantine
            if (position := (row["source"], row["offset"])) in events
        ),
    )
    counts.update(compare_filtered(version, meant, events))
    counts["alien"] += sum(len(valid & meant[fate]) for fate in meant if ":" in fate)
    return counts


def compare_filtered(version, meant, events):
    """Filtered records are in no file: their leaves must have the sums of the events meant."""
    counts = Counter()
    for source, leaves in version.manifest["ledger"].items():
        reasons = {fate.partition(":")[2] for fate in meant if fate.startswith("filtered:")}
        for reason in reasons | leaves["filtered"].keys():
            mine = [p for p in meant[f"filtered:{reason}"] if p[0] == source]
            wanted = *sums(source, [(p[1], 0) for p in mine]), sum(events[p]["bytes"] for p in mine)
            leaf = leaves["filtered"].get(reason)
            got = *sums(source, []), 0
            if leaf is not None:
                got = leaf["records"], leaf["l1"], leaf["l2"], leaf["bytes"]
            counts.update({"filtered": got[0], f"filtered {reason}": got[0]})
            counts["misfiltered"] += got != wanted
    return counts


def is_altered(version, event, record):
    if event is None or event["label"] is None:
        return False
    return int(parse_sample(version.manifest["schema"], record)["label"]) != event["label"]


def check(versions, ledger):
    """Return the counts over all versions; raise unless the ledger is met exactly."""
    counts = Counter(lost=0, doubled=0, alien=0, misjudged=0, altered=0, misfiltered=0)
    for folder in versions:
        version = Version(folder)
        check_manifest_ledger(version)
        counts.update(compare(version, acknowledged(ledger, version.manifest["interval"])))
    wrong = [name for name in ("lost", "doubled", "alien", "misjudged", "altered", "misfiltered")
             if counts[name]]  # fmt: skip
    require(not wrong and counts["quarantined"] == counts["planted"], f"{wrong}: {dict(counts)}")
    return dict(counts)


if __name__ == "__main__":
    try:
        sys.stdout.write(json.dumps(check(sys.argv[2:], sys.argv[1]), indent=2) + "\n")
    except AssertionError as violation:
        sys.exit(f"violation: {violation}")
