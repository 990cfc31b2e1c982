"""``python -m examples.year.builds FIRST/LAST …``: builds ranges of days in one process.

``trainfeed build`` over a range starts a process for each interval. Here one process builds them
one after another, with the same function of ``trainfeed.pipeline.local``: a year then takes minutes
on a machine that has other work. A day that fails keeps no other from being built.
"""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Sequence

from trainfeed.core.config import environment_from_environ
from trainfeed.core.intervals import parse_range
from trainfeed.errors import TrainFeedError
from trainfeed.pipeline.local import build
from trainfeed.specification import load_spec


def main(ranges: Sequence[str]) -> None:
    """Build the days of every range; status 1 if any day is not built."""
    env = environment_from_environ()
    spec = load_spec(env.datasets / "flights")
    begun, counts = time.perf_counter(), Counter[str]()
    for asked in ranges:
        span = parse_range(asked)
        for interval in spec.schedule_model().intervals(span.start, span.end):
            if interval.start >= span.end:
                break
            try:
                counts[str(build(spec, interval, env).to_json()["verdict"])] += 1
            except TrainFeedError as error:
                counts["failed"] += 1
                first, *_ = str(error).splitlines()
                print(f"{interval.name}: {type(error).__name__}: {first}")
    told = ", ".join(f"{number} {verdict}" for verdict, number in sorted(counts.items()))
    print(f"{told}; {time.perf_counter() - begun:.0f} s")
    sys.exit(1 if counts["failed"] else 0)


if __name__ == "__main__":
    main(sys.argv[1:])
