"""The kinds of files of a publication root, with its landing area, work files and conversions."""

from __future__ import annotations

import re
from typing import Final

__all__ = ["KINDS", "kind_of"]

_DAY: Final = r"[0-9]{4}-[0-9]{2}-[0-9]{2}"
_SET: Final = r"root/(?:clicks|views)"
_VERSION: Final = rf"{_SET}/versions/{_DAY}/g[0-9]{{4}}"
_PLAN: Final = rf"{_SET}/plans/{_DAY}/[0-9a-f]{{16}}-g[0-9]{{4}}"
_JOB: Final = rf"{_SET}/training/{_DAY}/[^/]+"
_STAGED: Final = rf"{_SET}/_staging/[0-9a-f]{{16}}-g[0-9]{{4}}"
_MODEL: Final = "root/models/[^/]+"
_SPILL: Final = r"work/spill/[0-9a-f]{16}-g[0-9]{4}"
# Kind → pattern of the names of its files; the first that matches counts.
KINDS: Final = {
    "mark of the root": r"root/TRAINFEED\.json",
    "schedule": rf"{_SET}/SCHEDULE\.json",
    "last run of retention": rf"{_SET}/RETENTION\.json",
    "accepted hole": rf"{_SET}/holes/.*\.json",
    "index of status": rf"{_SET}/STATUS\.jsonl",
    "code": rf"{_SET}/code/[0-9a-f]{{64}}\.json",
    "lookup": rf"{_SET}/lookups/[0-9a-f]{{64}}",
    "pointer": rf"{_SET}/versions/{_DAY}/CURRENT",
    "manifest": rf"{_VERSION}/MANIFEST\.json",
    "digest of a manifest": rf"{_VERSION}/MANIFEST\.sha256",
    "chunks": rf"{_VERSION}/CHUNKS\.arrow",
    "positions": rf"{_VERSION}/POSITIONS\.arrow",
    "statistics": rf"{_VERSION}/statistics\.json",
    "quarantine": rf"{_VERSION}/quarantine/.*",
    "times of a build": rf"{_VERSION}/BUILT\.json",
    "shard": rf"{_VERSION}/[a-z]+-[a-z]+-[0-9]{{5}}-of-[0-9]{{5}}",
    "withdrawal": rf"{_VERSION}\.withdrawn",
    "lifted withdrawal": rf"{_VERSION}\.restored-.*",
    "removal of a version": rf"{_VERSION}\.removed",
    "retirement": rf"{_SET}/versions/{_DAY}/RETIRED\.json",
    "boundary": rf"{_SET}/boundaries/[^/]+/[^/]+/[0-9TZ]+\.json",
    "plan": rf"{_PLAN}\.json",
    "refused gates": rf"{_PLAN}\.refused\.json",
    "waiver": rf"{_PLAN}\.waiver-[0-9]{{4}}\.json",
    "applied waivers": rf"{_PLAN}\.waived-[0-9a-f]+\.json",
    "skip": rf"{_SET}/plans/{_DAY}/SKIPPED\.json",
    "removal of landing files": rf"{_SET}/plans/{_DAY}/LANDING_REMOVED\.json",
    "unpublished attempt": rf"{_SET}/unpublished/{_DAY}\.json",
    "verdict": rf"{_STAGED}/check\.json|{_SPILL}/check\.json",
    "staged file": rf"{_STAGED}/.*",
    "lease": rf"{_SET}/_leases/.*\.json",
    "job": rf"{_JOB}/job\.json",
    "result of a job": rf"{_JOB}/result\.json",
    "gate of a job": rf"{_JOB}/gate\.json",
    "removal of a job": rf"{_JOB}/removed\.json",
    "note of a checkpoint": rf"{_JOB}/checkpoints/[0-9]+/checkpoint\.json",
    "checkpoint": rf"{_JOB}/checkpoints/[0-9]+/.*",
    "output of a job": rf"{_JOB}/output/.*",
    "log of a job": rf"{_JOB}/(metrics\.jsonl|rank-[0-9]+\.log)",
    "training mark": rf"{_SET}/training/_marks/{_DAY}\.g[0-9]{{4}}\.(seen|announced|declined)",
    "begin of trainings": rf"{_SET}/training/_marks/since\.json",
    "action": rf"{_SET}/history/[0-9]{{6}}/.*\.json",
    "change of a tag": rf"{_SET}/tags/[^/]+/[0-9]{{4}}\.json",
    "last of a folder": r"root/.*/LAST\.json",
    "upload": rf"{_SET}/uploads/{_DAY}/.*",
    "receipt": rf"{_SET}/receipts/[0-9]{{8}}\.json",
    "interval of a receipt": rf"{_SET}/receipts/intervals/[0-9]{{8}}\.{_DAY}",
    "refused upload": rf"{_SET}/receipts/refused/.*\.json",
    "removal of uploads": rf"{_SET}/receipts/removed/{_DAY}\.json",
    "announced receipts": rf"{_SET}/receipts/announced\.json",
    "kept upload": rf"{_SET}/receipts/content/[0-9a-f]{{64}}",
    "change of an alias": rf"{_MODEL}/aliases/[^/]+/[0-9]{{4}}\.json",
    "manifest of a model": rf"{_MODEL}/v[0-9]{{4}}/MANIFEST\.json",
    "digest of a model": rf"{_MODEL}/v[0-9]{{4}}/MANIFEST\.sha256",
    "file of a model": rf"{_MODEL}/v[0-9]{{4}}/.*",
    "removal of a model": rf"{_MODEL}/removed/v[0-9]{{4}}\.json",
    "landing file": r"landing/.*\.arrow",
    "spill": r"work/spill/.*",
    "converted shard": r"converted/part-[0-9]{5}-of-[0-9]{5}",
    "manifest of a conversion": r"converted/part\.shards\.json",
}
_PATTERNS: Final = [(kind, re.compile(pattern)) for kind, pattern in KINDS.items()]


def kind_of(name: str) -> str:
    """Return the kind of a file by its name from the folder of a project on."""
    for kind, pattern in _PATTERNS:
        if pattern.fullmatch(name):
            return kind
    raise AssertionError(f"expected a file of a kind that the sweep knows, got {name}")
