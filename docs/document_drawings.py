"""Writes the drawings of ``concepts/``, and the profile of a build."""

from __future__ import annotations

import sys
from collections.abc import Mapping

from docs._build_profile import build_profile
from docs._drawing import Drawing
from docs._writing import write_or_check


def documents() -> Mapping[str, str]:
    """The text of every drawing, by its name."""
    drawn = {
        "data-flow": data_flow(),
        "identity": identity(),
        "boundaries": boundaries(),
        "publication": publication(),
        "order": order(),
        "resume": resume(),
    }
    profile = {"authors/build-profile.svg": build_profile().svg()}
    return {f"concepts/{name}.svg": drawing.svg() for name, drawing in drawn.items()} | profile


def data_flow() -> Drawing:
    """From topics and log files to a training, stage by stage."""
    drawing = Drawing(760, 330)
    drawing.box(10, 20, 130, 50, ["Kafka topics"])
    drawing.box(10, 100, 130, 50, ["Log folders", "HDFS, files"])
    stages = (
        ("plan", "what is read"),
        ("ingest", "landing files"),
        ("preprocess", "your function"),
        ("convert", "shards"),
        ("check", "proof, gates"),
        ("publish", "one rename"),
    )
    drawing.arrow((140, 45), (165, 45), (165, 85), (190, 85))
    drawing.arrow((140, 125), (165, 125), (165, 85), (190, 85))
    for number, (name, what) in enumerate(stages[:4]):
        left = 190 + number * 142
        drawing.box(left, 60, 120, 50, [name, what])
        if number:
            drawing.arrow((left - 22, 85), (left, 85))
    drawing.arrow((676, 110), (676, 160))
    drawing.box(616, 160, 120, 50, list(stages[4]))
    drawing.arrow((616, 185), (594, 185))
    drawing.box(474, 160, 120, 50, list(stages[5]))
    drawing.arrow((474, 185), (440, 185))
    drawing.box(230, 155, 210, 60, ["version", "2026-01-01/g0001"], strong=True)
    drawing.arrow((335, 215), (335, 260))
    drawing.box(230, 260, 210, 50, ["readers, loader", "batches at memory speed"])
    drawing.arrow((230, 185), (140, 185))
    drawing.box(10, 160, 130, 50, ["asset event", "train.NAME starts"])
    drawing.arrow((75, 210), (75, 285), (230, 285))
    drawing.text(85, 250, "one job per content", style="d-small")
    drawing.text(450, 280, "any number of ranks, resumed exactly", style="d-small")
    return drawing


def identity() -> Drawing:
    """The decisions that follow from the position of a record, and the contents of two digests."""
    drawing = Drawing(760, 320)
    drawing.box(10, 20, 200, 60, ["position of a record", "kafka:clicks/3, offset 41207"])
    drawing.box(10, 110, 200, 50, ["seed", "of dataset.yaml"])
    drawing.box(280, 50, 150, 60, ["64-bit hash", "no host, no clock"], strong=True)
    drawing.arrow((210, 50), (245, 50), (245, 80), (280, 80))
    drawing.arrow((210, 135), (245, 135), (245, 80), (280, 80))
    for number, (name, what) in enumerate(
        (("split", "train or eval"), ("shard", "which file"), ("order", "place in the file"))
    ):
        top = 10 + number * 60
        drawing.box(510, top, 230, 48, [name, what])
        drawing.arrow((430, 80), (470, 80), (470, top + 24), (510, top + 24))
    drawing.box(
        10,
        220,
        350,
        80,
        [
            "fingerprint: what goes in",
            "ranges, specification, code, lookups",
            "known before anything is read",
        ],
    )
    drawing.box(
        390,
        220,
        350,
        80,
        [
            "content digest: what comes out",
            "schema and records of every shard",
            "names orders and trainings",
        ],
    )
    return drawing


def boundaries() -> Drawing:
    """Where a point in time lies in the partitions of a topic."""
    drawing = Drawing(760, 280)
    drawing.text(10, 24, "stamps of the records, by offset", style="d-title")
    rows = (
        ("partition 0", ["23:57", "23:58", "00:03", "23:59", "00:01", "00:02", "00:04"], 4),
        ("partition 1", ["23:56", "00:09", "23:58", "23:59", "00:00", "00:01", "00:02"], 4),
        ("partition 2", ["23:50", "23:52", "23:54", "23:55", "00:10", "23:58", "00:12"], 4),
    )
    for number, (name, stamps, cut) in enumerate(rows):
        top = 50 + number * 60
        drawing.text(10, top + 19, name)
        drawing.cells(110, top, 88, stamps, strong="." * cut + "x" * (len(stamps) - cut))
        drawing.mark((108 + cut * 88, top - 10), (108 + cut * 88, top + 38))
    drawing.text(110, 240, "interval of 1 January: offsets before the boundary", style="d-small")
    drawing.text(462, 240, "interval of 2 January: from the boundary on", style="d-small")
    drawing.text(
        110,
        264,
        "One file holds the boundary of midnight; both neighbours read it.",
        style="d-small",
    )
    return drawing


def publication() -> Drawing:
    """How a version appears."""
    drawing = Drawing(760, 330)
    drawing.box(10, 20, 200, 56, ["_staging/tmp/", "unfinished files"])
    drawing.arrow((210, 48), (270, 48))
    drawing.text(240, 40, "1", style="d-title", anchor="middle")
    drawing.box(
        270, 10, 230, 76, ["_staging/PLAN/", "whole files, synced,", "verified from the disk"]
    )
    drawing.arrow((500, 48), (560, 48))
    drawing.text(530, 40, "2", style="d-title", anchor="middle")
    drawing.box(
        560, 10, 190, 76, ["versions/2026-01-01/", "g0001", "read-only for ever"], strong=True
    )
    drawing.arrow((655, 86), (655, 130))
    drawing.text(667, 113, "3", style="d-title")
    drawing.box(560, 130, 190, 50, ["CURRENT", "g0001, then g0002"])
    drawing.text(10, 120, "1  A file gets its name when it is whole: sync, then rename.")
    drawing.text(10, 146, "2  One rename makes the version visible. It fails where")
    drawing.text(28, 166, "the name is taken; then what is there is adopted or refused.")
    drawing.text(10, 192, "3  A hint for readers: which generation is the newest.")
    drawing.box(
        10,
        230,
        230,
        70,
        ["killed before 2", "readers see what they saw;", "the next try uses what is whole"],
    )
    drawing.box(
        265, 230, 230, 70, ["killed in 2", "the rename took place or not;", "the next try looks"]
    )
    drawing.box(
        520, 230, 230, 70, ["killed after 2", "the version is there;", "the next try finds it"]
    )
    return drawing


def order() -> Drawing:
    """How an epoch is cut into lanes and windows, and the share of each rank."""
    drawing = Drawing(760, 300)
    drawing.text(10, 30, "chunks, permuted")
    drawing.cells(150, 12, 74, ["c7", "c2", "c5", "c0", "c3", "c6", "c1", "c4"])
    drawing.arrow((446, 44), (446, 70))
    drawing.text(460, 62, "cut into lanes of equal size, shuffled in windows", style="d-small")
    for lane in range(4):
        top = 78 + lane * 36
        drawing.text(10, top + 19, f"lane {lane}")
        cells = [str(lane + 4 * place) for place in range(8)]
        drawing.cells(150, top, 74, cells, strong="xxxxxxxx" if lane % 2 else "")
    drawing.text(
        10, 246, "Position p is index p // 4 of lane p % 4. A batch takes from all lanes in turn."
    )
    drawing.text(
        10,
        270,
        "On two ranks, rank 1 reads the marked lanes, rank 0 the others.",
    )
    return drawing


def resume() -> Drawing:
    """A training that is killed and goes on with another number of ranks."""
    drawing = Drawing(760, 220)
    drawing.text(10, 34, "2 ranks")
    drawing.cells(110, 14, 52, [str(n) for n in range(12)], strong="xxxxxx")
    drawing.mark((108 + 6 * 52, 4), (108 + 6 * 52, 130))
    drawing.text(118 + 6 * 52, 76, "killed; the last state says position 6")
    drawing.text(10, 114, "3 ranks")
    drawing.cells(110, 94, 52, [str(n) for n in range(12)], strong="......xxxxxx")
    drawing.text(
        10,
        160,
        "The numbers are positions of the epoch, the same on any number of ranks.",
    )
    drawing.text(
        10,
        184,
        "The state: seed, epoch, position, digest of the content. Less than 200 bytes.",
    )
    return drawing


if __name__ == "__main__":
    write_or_check(documents(), sys.argv[1:])
