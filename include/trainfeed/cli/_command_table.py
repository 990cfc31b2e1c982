"""The commands of ``trainfeed`` under the headings of its help.

They are named here and not imported: a command has to wait for its own modules only.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import chain
from typing import Final

from trainfeed.cli.command_groups import Entry

HEADINGS: Final[Mapping[str, tuple[Entry, ...]]] = {
    "Everyday": (
        Entry(
            "init",
            ".init:init",
            "Make the publication root, the folder of all versions.",
            example="trainfeed init /mnt/cephfs/training",
        ),
        Entry(
            "new",
            ".new:new",
            "Make the folder of a new data set, ready to build.",
            example="trainfeed new clicks",
        ),
        Entry(
            "build",
            ".build:build",
            "Build and publish intervals of a data set.",
            example="trainfeed build flights/2013-01-01/2013-01-31 --jobs 4",
        ),
        Entry(
            "train",
            ".training:train",
            "Train on a window of intervals, or on a tag.",
            example="trainfeed train flights --interval 2013-01-04",
        ),
        Entry(
            "status",
            ".status:status",
            "Show what is published, what is missing, and why.",
            example="trainfeed status flights",
        ),
        Entry(
            "ls",
            ".ls:ls",
            "List data sets, or the published versions of one.",
            example="trainfeed ls flights",
        ),
        Entry(
            "show",
            ".ls:show",
            "Show the manifest of one version, or list versions.",
            example="trainfeed show flights/2013-01-01",
        ),
        Entry(
            "head",
            ".versions:head",
            "Show the first samples of a version.",
            example="trainfeed head flights/2013-01-01 -n 3 --split eval",
        ),
    ),
    "Look": (
        Entry(
            "stats",
            ".versions:stats",
            "Show the statistics of every field of a version.",
            example="trainfeed stats flights/2013-01-01",
        ),
        Entry(
            "verify",
            ".versions:verify",
            "Compare every file of a version with its manifest.",
            example="trainfeed verify flights/2013-01",
        ),
        Entry(
            "diff",
            ".comparison:diff",
            "Show how two versions differ.",
            example="trainfeed diff flights 2013-01-01/g0001 2013-01-01/g0002",
        ),
        Entry(
            "outdated",
            ".outdated:outdated",
            "Show versions that a build of today would make otherwise.",
            example="trainfeed outdated flights 2013-01",
        ),
        Entry(
            "drift",
            ".comparison:drift",
            "Compare the distributions of versions with earlier ones.",
            example="trainfeed drift flights 2013-01",
        ),
        Entry(
            "lineage",
            ".lineage:lineage",
            "Show what a version or model came from, and led to.",
            example="trainfeed lineage kafka:flights/0@12345",
        ),
        Entry(
            "history",
            ".listings:history",
            "Show who changed what in a data set, and why.",
            example="trainfeed history flights --action prune --since 2026-03-01",
        ),
        Entry(
            "connections",
            ".connections:app",
            "Check the connections that data sets name.",
        ),
        Entry(
            "leases",
            ".listings:show_leases",
            "Show who reads or builds versions now.",
            example="trainfeed leases flights",
        ),
    ),
    "Correct": (
        Entry(
            "repair",
            ".upkeep:repair",
            "Make the damaged files of a version what they were.",
            example="trainfeed repair flights/2013-01-01/g0001 --dry-run",
        ),
        Entry(
            "bring-forward",
            ".outdated:bring_forward",
            "Build the outdated intervals of a range again.",
            example="trainfeed bring-forward flights 2013-01 --dry-run",
        ),
        Entry(
            "parameters",
            ".parameters:parameters",
            "Show or choose the parameters of an interval.",
            example="trainfeed parameters flights/2013-01-01 late_minutes=20 --why 'a test'",
        ),
        Entry(
            "withdraw",
            ".corrections:withdraw",
            "Hide a version; readers get the one before it.",
            example="trainfeed withdraw flights/2013-01-01 --why 'labels of the day before'",
        ),
        Entry(
            "restore",
            ".corrections:restore",
            "Give a withdrawn version back to readers.",
            example="trainfeed restore flights/2013-01-01/g0002 --why 'the labels were right'",
        ),
        Entry(
            "quarantine",
            ".quarantine:app",
            "Look at rejected records, and process them again.",
        ),
        Entry(
            "waive",
            ".upkeep:waive",
            "Let failed quality gates of a build pass.",
            example="trainfeed waive flights/2013-01-01 --why 'storm, few flights'"
            " --until 2026-12-31",
        ),
        Entry(
            "waivers",
            ".upkeep:waivers",
            "Show who let failed gates pass, why, and until when.",
        ),
        Entry(
            "accept-hole",
            ".corrections:accept_hole",
            "Accept a hole between versions that no interval fills.",
            example="trainfeed accept-hole flights/2013-01-05T00/2013-01-05T05"
            " --why 'from 6 on now'",
        ),
        Entry(
            "boundaries",
            ".upkeep:boundaries",
            "Check where intervals begin and end in topics.",
        ),
    ),
    "Keep": (
        Entry(
            "tag",
            ".corrections:tag",
            "Give versions a name that does not follow later builds.",
            example="trainfeed tag flights 2013-01 prod --why 'release of January'",
        ),
        Entry(
            "untag",
            ".corrections:untag",
            "Remove a tag; its versions stay.",
            example="trainfeed untag flights prod --why 'replaced by jan-2013'",
        ),
        Entry(
            "tags",
            ".listings:tags",
            "List the tags of a data set, or show one.",
            example="trainfeed tags flights prod --history",
        ),
        Entry(
            "index",
            ".init:index",
            "Write the index that readers behind https:// need.",
            example="trainfeed index /mnt/cephfs/training",
        ),
        Entry(
            "mirror",
            ".mirror:mirror",
            "Copy versions and decisions into another root.",
            example="trainfeed mirror /mnt/cephfs/training s3://lake/training flights/2013",
        ),
        Entry(
            "gc",
            ".upkeep:gc",
            "Remove what killed builds left behind, and no version.",
            example="trainfeed gc --older-than 24 --dry-run",
        ),
        Entry(
            "prune",
            ".upkeep:prune_dataset",
            "Remove versions by the retention rules of dataset.yaml.",
            example="trainfeed prune --all --dry-run",
        ),
        Entry(
            "retire",
            ".upkeep:retire",
            "Remove all versions of the intervals you name, for good.",
            example="trainfeed retire flights/2013-01/2013-03 --why 'older than the audit'"
            " --dry-run",
        ),
    ),
    "Models": (
        Entry(
            "models",
            ".models:app",
            "List, judge, promote and copy the models of trainings.",
        ),
        Entry(
            "jobs",
            ".training:jobs",
            "List trainings, read their logs, and cancel them.",
        ),
        Entry(
            "predict",
            ".serving:predict",
            "Predict records in files with a model.",
            example="trainfeed predict flights@prod flights.jsonl",
        ),
    ),
    "Servers": (
        Entry(
            "serve",
            ".serving:serve",
            "Answer requests for predictions with a model.",
            example="trainfeed serve flights@prod --tokens tokens.txt",
        ),
        Entry(
            "dispatch",
            ".servers:dispatch",
            "Serve chunks of versions to trainers that come and go.",
        ),
        Entry(
            "token",
            ".servers:token",
            "Make, list and revoke the tokens of servers.",
        ),
    ),
    "Storage": (
        Entry(
            "pfs",
            ".pfs:app",
            "Copy, list and serve files on shared storage.",
        ),
        Entry(
            "file",
            ".file:app",
            "Look into files of records, repair and convert them.",
        ),
        Entry(
            "uploads",
            ".uploads:app",
            "Check and list uploaded files of labels.",
        ),
        Entry(
            "public",
            ".public:app",
            "List, build and use public data sets.",
        ),
    ),
    "More": (
        Entry(
            "schema",
            ".new:schema",
            "Print the JSON Schema of dataset.yaml, for editors.",
            example="trainfeed schema > dataset.schema.json",
        ),
        Entry(
            "bench",
            ".bench:app",
            "Measure the speed of this machine and its file systems.",
        ),
        Entry(
            "process-base64",
            ".new_files:process_base64",
            "Shuffle base64 image files into one file per rank.",
            example="trainfeed process-base64 --data-dir images --file-list list.txt --nranks 8",
        ),
        Entry(
            "paddle",
            ".pfs:paddle",
            "Use shared storage under PaddlePaddle's names.",
        ),
    ),
}
COMMANDS: Final = tuple(chain.from_iterable(HEADINGS.values()))
