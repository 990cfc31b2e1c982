"""Runs of retention over the landing files of a small data set."""

import os
from datetime import UTC, datetime
from pathlib import Path

from trainfeed.upkeep.retention import Context, execute, plan_removals
from trainfeed.upkeep.retention.landing import LandingFiles

DAY, NEXT = "2024-03-01", "2024-03-02"
NOW = datetime(2024, 6, 1, tzinfo=UTC)
KINDS = (LandingFiles(),)


def published(project, interval, at, generation=1):
    os.utime(project.folder.version(interval, generation), (at.timestamp(), at.timestamp()))


def found(project, now=NOW):
    context = Context.of(project.spec, project.env, now=now)
    return context, plan_removals(context, KINDS)


def prune(project, now=NOW):
    context, removals = found(project, now)
    return execute(context, KINDS, removals)


def landed(project):
    landing = Path(project.env.landing)
    return sorted(path for path in landing.rglob("*") if path.is_file())


def names(items):
    return [each.item.name for each in items]
