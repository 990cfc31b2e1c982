"""Where the seconds of one build go, stage by stage, and which of them are proof.

``python -m benchmarks.pipeline.shares STACKS RATE FIGURES`` reads stacks that ``py-spy record
--subprocesses --nolineno --rate RATE --format raw`` wrote, and writes the figures of the drawing
``docs/authors/build-profile.svg``: a stage has parts, and each part its processor seconds.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple


class Rule(NamedTuple):
    """A part of a stage.

    Attributes:
        frame: How the frame of a function begins that belongs to the part.
        part: Name of the part.
        is_proof: Whether it only proves that no record was lost or changed.
    """

    frame: str
    part: str
    is_proof: bool = False


# The first frame that is found in a stack, from the outside in, is the stage.
STAGES: Final = {
    "plan (": "plan",
    "_ingest (": "ingest",
    "FunctionJob.run (": "preprocess",
    "_preprocess (": "preprocess",
    "_convert (": "convert",
    "_check (": "check",
    "_publish (": "publish",
    "compare_file": "publish",  # in threads of its own
}
# The first rule that holds for a stack counts it.
RULES: Final = (
    Rule("ContentDigest.", "digest", is_proof=True),
    Rule("digest_of (", "digest", is_proof=True),
    Rule("DigestedFile.", "digest", is_proof=True),
    Rule("compare_file", "verification", is_proof=True),
    Rule("_recount_", "ledger", is_proof=True),
    Rule("leaf_of (", "ledger", is_proof=True),
    Rule("Leaf.of (", "ledger", is_proof=True),
    Rule("ValidLeaf.of (", "ledger", is_proof=True),
    Rule("frame_records (", "records framed, digest", is_proof=True),
    Rule("json_columns (", "JSON"),
    Rule("loads (", "JSON"),
    Rule("flights_batch (", "function"),
    Rule("UserFunction.", "function"),
    Rule("SampleSorter.", "sort, spill"),
    Rule("Group._write", "sort, spill"),
    Rule("LandingFile.", "read"),
    Rule("LandingWriter.", "write"),
    Rule("TargetFile.", "write"),
    Rule("Merge.blocks (", "merge"),
    Rule("_zstd_compress (", "compress"),
    Rule("Statistics.update", "statistics"),
    Rule("ColumnEncoder.", "encode"),
    Rule("RecordMode.", "encode"),
    Rule("UnfinishedFile.", "sync"),
    Rule("sync_folder (", "sync"),
    Rule("find_boundaries (", "boundaries"),
    Rule("write_positions (", "positions"),
)
# Lines of a function itself that digest; what it calls has rules of its own.
LEAVES: Final = {"ShardWriter._write_rows (": RULES[8]}
OTHER: Final = Rule("", "other")
# Threads that wait: sampled, but without processor time.
WAITING: Final = ("Condition.wait (", "_worker (", "EpollSelector.select (", "Popen")


def main(stacks: Path, rate: float, figures: Path) -> None:
    """Write the figures of a profile."""
    counts: Counter[tuple[str, str, bool]] = Counter()
    for frames, samples in _stacks(stacks):
        rule = _rule(frames)
        counts[_stage(frames), rule.part, rule.is_proof] += samples
    stages: dict[str, list[dict[str, object]]] = {name: [] for name in ("start", *STAGES.values())}
    for (stage, part, is_proof), samples in counts.most_common():
        seconds = round(samples / rate, 2)
        stages[stage].append({"part": part, "seconds": seconds, "proof": is_proof})
    figures.write_text(json.dumps({"stages": stages}, indent=1) + "\n")


def _stacks(path: Path) -> Iterator[tuple[list[str], int]]:
    for line in path.read_text().splitlines():
        stack, _, samples = line.rpartition(" ")
        frames = stack.split(";")
        if not frames[-1].startswith(WAITING):
            yield frames, int(samples)


def _stage(frames: list[str]) -> str:
    for frame in frames:
        for start, stage in STAGES.items():
            if frame.startswith(start):
                return stage
    return "start"


def _rule(frames: list[str]) -> Rule:
    for start, rule in LEAVES.items():
        if frames[-1].startswith(start):
            return rule
    return next((r for r in RULES if any(f.startswith(r.frame) for f in frames)), OTHER)


if __name__ == "__main__":
    main(Path(sys.argv[1]), float(sys.argv[2]), Path(sys.argv[3]))
