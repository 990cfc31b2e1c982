"""One build of the benchmark's data set in this process, with the time of every stage.

``python -m benchmarks.pipeline.ours FOLDER/x10 batch|record OUT`` builds into OUT, a new folder.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from trainfeed.core.config import Environment, KafkaSettings
from trainfeed.pipeline.local import build
from trainfeed.specification import load_spec
from trainfeed.versions import init_root


def main(place: Path, form: str, out: Path) -> None:
    """Build once, and print what came of it."""
    started = time.perf_counter()
    report = build_once(place, form, out)
    print(
        json.dumps(
            {
                "samples": report["samples"],
                "content": report["content_digest"],
                "seconds": report["seconds"],
                "wall_s": round(time.perf_counter() - started, 3),
            }
        )
    )


def build_once(
    place: Path, form: str, out: Path, on_stage: Callable[[str], object] = str
) -> dict[str, Any]:
    """Build the data set of ``place`` in ``form`` into ``out``, a new folder."""
    init_root(out / "root")
    env = Environment(
        root=str(out / "root"),
        landing=str(out / "landing"),
        work=str(out / "work"),
        kafka={"kafka_default": KafkaSettings(recorded=str(place / "recorded"))},
        datasets=place / "datasets" / form,
    )
    spec = load_spec(env.datasets / "flights")
    interval = spec.schedule_model().interval_named("2013-01-01")
    return build(spec, interval, env, on_stage=on_stage).to_json()


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], Path(sys.argv[3]))
