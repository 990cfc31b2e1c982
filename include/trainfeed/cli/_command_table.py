"""The commands of ``trainfeed``, in the order of its help.

They are named here and not imported: a command has to wait for its own modules only.
"""

from __future__ import annotations

from typing import Final

from trainfeed.cli.command_groups import Entry

COMMANDS: Final = (
    Entry(
        "init",
        ".init:init",
        "Make the publication root, the folder of all versions, or accept one that has versions.",
        example="trainfeed init /mnt/cephfs/training",
    ),
    Entry(
        "new",
        ".new:new",
        "Make the folder of a new data set, with comments and sample records, ready to build.",
        example="trainfeed new clicks",
    ),
    Entry(
        "schema",
        ".new:schema",
        "Print the JSON Schema of dataset.yaml, for editors.",
        example="trainfeed schema > dataset.schema.json",
    ),
    Entry(
        "build",
        ".build:build",
        "Build and publish intervals of a data set, or preview the result of a build.",
        example="trainfeed build flights/2013-01-01/2013-01-31 --jobs 4",
    ),
    Entry(
        "train",
        ".training:train",
        "Train on the window that ends with --interval, or on a tag; reuse a finished job.",
        example="trainfeed train flights --interval 2013-01-04",
    ),
    Entry(
        "predict",
        ".serving:predict",
        "Predict records with a model: a line of JSON for each record, in their order.",
        example="trainfeed predict flights@prod flights.jsonl",
    ),
    Entry(
        "serve",
        ".serving:serve",
        "Answer requests for predictions with a model, until SIGTERM.",
        example="trainfeed serve flights@prod --tokens tokens.txt",
    ),
    Entry(
        "status",
        ".status:status",
        "Show which intervals are in, which are not and why, and up to when all are in.",
        example="trainfeed status flights",
    ),
    Entry(
        "outdated",
        ".outdated:outdated",
        "Show the versions that today's code, specification, lookups or uploads would build"
        " otherwise.",
        example="trainfeed outdated flights 2013-01",
    ),
    Entry(
        "bring-forward",
        ".outdated:bring_forward",
        "Build the outdated intervals of a range again, oldest first; see trainfeed outdated.",
        example="trainfeed bring-forward flights 2013-01 --dry-run",
    ),
    Entry(
        "drift",
        ".comparison:drift",
        "Compare the distributions of versions with those before them, by their statistics alone.",
        example="trainfeed drift flights 2013-01",
    ),
    Entry(
        "diff",
        ".comparison:diff",
        "Show what two versions have not alike: plan, code, lookups, counts, statistics, samples.",
        example="trainfeed diff flights 2013-01-01/g0001 2013-01-01/g0002",
    ),
    Entry(
        "lineage",
        ".lineage:lineage",
        "Show what went into a version, job or model, and what came of it, or of a record.",
        example="trainfeed lineage kafka:flights/0@12345",
    ),
    Entry(
        "ls",
        ".ls:ls",
        "List data sets, or the published intervals of one.",
        example="trainfeed ls flights",
    ),
    Entry(
        "show",
        ".ls:show",
        "Show the manifest of one version, or list the versions of a data set or range.",
        example="trainfeed show flights/2013-01-01",
    ),
    Entry(
        "head",
        ".versions:head",
        "Show the first samples of a version.",
        example="trainfeed head flights/2013-01-01 -n 3 --split eval",
    ),
    Entry(
        "stats",
        ".versions:stats",
        "Show count, nulls, range, mean and more of every field, as published with the version.",
        example="trainfeed stats flights/2013-01-01",
    ),
    Entry(
        "verify",
        ".versions:verify",
        "Compare every file of a version, or of all, with its manifest.",
        example="trainfeed verify flights/2013-01",
    ),
    Entry(
        "repair",
        ".upkeep:repair",
        "Repair the damaged files of a version, if they can be had with the published digests.",
        example="trainfeed repair flights/2013-01-01/g0001 --dry-run",
    ),
    Entry(
        "waive",
        ".upkeep:waive",
        "Let failed gates of an unpublished build pass, with the values that they have now.",
        example="trainfeed waive flights/2013-01-01 --why 'storm, few flights' --until 2026-12-31",
    ),
    Entry(
        "withdraw",
        ".corrections:withdraw",
        "Hide a published version: readers turn to the generation before, which is verified first.",
        example="trainfeed withdraw flights/2013-01-01 --why 'labels of the day before'",
    ),
    Entry(
        "restore",
        ".corrections:restore",
        "Take a withdrawal back: the version is verified, and readers may get it again.",
        example="trainfeed restore flights/2013-01-01/g0002 --why 'the labels were right'",
    ),
    Entry(
        "tag",
        ".corrections:tag",
        "Give the versions of a range a name that does not follow later builds, or move it.",
        example="trainfeed tag flights 2013-01 prod --why 'release of January'",
    ),
    Entry(
        "untag",
        ".corrections:untag",
        "Remove a tag; the versions and the history of the tag stay.",
        example="trainfeed untag flights prod --why 'replaced by jan-2013'",
    ),
    Entry(
        "tags",
        ".listings:tags",
        "List the tags of a data set, or show what one names, or named.",
        example="trainfeed tags flights prod --history",
    ),
    Entry(
        "accept-hole",
        ".corrections:accept_hole",
        "Let readers go without a part between two versions into which no interval fits.",
        example="trainfeed accept-hole flights/2013-01-05T00/2013-01-05T05 --why 'from 6 on now'",
    ),
    Entry(
        "gc",
        ".upkeep:gc",
        "Remove leftovers of killed builds and of launches; versions and landed records stay.",
        example="trainfeed gc --older-than 24 --dry-run",
    ),
    Entry(
        "prune",
        ".upkeep:prune_dataset",
        "Remove what `retention` in dataset.yaml does not keep; never what is in use.",
        example="trainfeed prune --all --dry-run",
    ),
    Entry(
        "retire",
        ".upkeep:retire",
        "Remove all versions of the intervals of a range for good; their numbers are not used"
        " again.",
        example="trainfeed retire flights/2013-01/2013-03 --why 'older than the audit' --dry-run",
    ),
    Entry(
        "leases",
        ".listings:show_leases",
        "Show who reads or builds versions now, which retention therefore keeps, and until when.",
        example="trainfeed leases flights",
    ),
    Entry(
        "history",
        ".listings:history",
        "Show what people and upkeep changed in a data set, the oldest first.",
        example="trainfeed history flights --action prune --since 2026-03-01",
    ),
    Entry(
        "process-base64",
        ".new_files:process_base64",
        "Shuffle base64 image files into one file per rank, with equal counts; inputs are kept.",
        example="trainfeed process-base64 --data-dir images --file-list list.txt --nranks 8",
    ),
    Entry("file", ".file:app", "Inspect, repair and convert files of records and samples."),
    Entry("pfs", ".pfs:app", "Shared storage for people."),
    Entry(
        "paddle",
        ".pfs:paddle",
        "Commands on shared storage under PaddlePaddle's names: cp, ls, rm, mkdir.",
    ),
    Entry(
        "bench",
        ".bench:app",
        "Measure the speed of this machine and its file systems.",
    ),
    Entry("waivers", ".upkeep:waivers", "Show who let failed gates pass, why, and until when."),
    Entry(
        "quarantine",
        ".quarantine:app",
        "Records that functions rejected, in versions and in builds that failed.",
    ),
    Entry("boundaries", ".upkeep:boundaries", "Where intervals begin and end in topics."),
    Entry("public", ".public:app", "Public data sets: list, build, use."),
    Entry(
        "uploads",
        ".uploads:app",
        "Labelled files that are joined with the samples of their interval.",
    ),
    Entry(
        "jobs",
        ".training:jobs",
        "List the jobs of trainings, show one, read its logs, and cancel it.",
    ),
    Entry(
        "models",
        ".models:app",
        "List the models of trainings, judge, promote, roll back, and copy to and from stores.",
    ),
    Entry(
        "dispatch",
        ".servers:dispatch",
        "Lend the chunks of published versions to trainers that come and go.",
    ),
    Entry("token", ".servers:token", "Make tokens for the servers of trainfeed."),
)
