"""Compares published versions of digits with the ledger of the writer of the logs.

Every written line must be there once, in its own form: a sample with its pixels and label, or a
quarantined line with its bytes. Imports nothing of trainfeed.

    python -m tests.unit.digits.accounting LEDGER.sqlite VERSION_FOLDER…
"""

import base64
import hashlib
import json
import sqlite3
import sys
from collections import Counter
from contextlib import closing
from pathlib import Path

from tests.oracle.accounting import check_manifest_ledger
from tests.oracle.independent_reader import Version, parse_sample, require


def written(ledger, day):
    """Return (source, offset) → row, for the lines of a day."""
    with closing(sqlite3.connect(f"file:{ledger}?mode=ro", uri=True)) as database:
        database.row_factory = sqlite3.Row
        rows = database.execute("SELECT * FROM lines WHERE day = ?", (day,)).fetchall()
    return {(row["source"], row["offset"]): row for row in rows}


def line_of(sample):
    return b"%s\t%d" % (base64.b64encode(sample["pixels"].tobytes()), int(sample["label"]))


def compare(version, lines):
    samples = {}
    counts = Counter(
        lines=len(lines), planted=sum(row["planted"] is not None for row in lines.values())
    )
    for source, offset, _, record in version.samples:
        counts["samples"] += 1
        counts["doubled"] += (source, offset) in samples
        samples[source, offset] = line_of(parse_sample(version.manifest["schema"], record))
    rejected = {(row["source"], row["offset"]): row["raw"] for row in version.quarantine}
    counts["quarantined"] = len(version.quarantine)
    counts["doubled"] += (
        len(version.quarantine) - len(rejected) + len(samples.keys() & rejected.keys())
    )
    found = samples | rejected
    counts["lost"] = len(lines.keys() - found.keys())
    counts["alien"] = len(found.keys() - lines.keys())
    for place, data in found.items():
        row = lines.get(place)
        counts["misjudged"] += row is not None and (row["planted"] is None) != (place in samples)
        counts["altered"] += row is None or hashlib.sha256(data).hexdigest() != row["sha256"]
    return counts


def check(versions, ledger):
    """Return the counts over all versions; raise unless the ledger is met exactly."""
    counts = Counter(lost=0, doubled=0, alien=0, misjudged=0, altered=0)
    for folder in versions:
        version = Version(folder)
        check_manifest_ledger(version)
        counts.update(compare(version, written(ledger, Path(folder).parent.name)))
    wrong = [name for name in ("lost", "doubled", "alien", "misjudged", "altered") if counts[name]]
    require(not wrong, f"{wrong}: {dict(counts)}")
    require(counts["quarantined"] == counts["planted"], f"quarantined: {dict(counts)}")
    return counts


if __name__ == "__main__":
    sys.stdout.write(json.dumps(check(sys.argv[2:], sys.argv[1])) + "\n")
