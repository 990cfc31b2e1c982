"""A published version that today's build would not make, and the errors about it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import NamedTuple

from trainfeed.dataset import Manifest
from trainfeed.errors import (
    ConflictError,
    NotFoundError,
    SourceReplacedError,
    TrainFeedError,
)
from trainfeed.pipeline._ref import JsonObject, PlanRef
from trainfeed.pipeline.planner._causes import Cause, PublishedVersion
from trainfeed.pipeline.planner._interval_uploads import told_uploads
from trainfeed.pipeline.planner._recipe import Recipe
from trainfeed.pipeline.plans import (
    Planned,
    first_few,
    load_plan,
    replaced_inputs,
    told_changes,
    unit_of_input,
)
from trainfeed.uploads import AppliedUpload

__all__ = [
    "OutdatedVersion",
    "PublishedVersion",
    "gone_inputs",
    "refusal_of",
    "replaced_error",
]


class OutdatedVersion(NamedTuple):
    """A published version that a build of now would not make.

    Attributes:
        version: The version.
        causes: The values that differ, in order of their places.
    """

    version: PublishedVersion
    causes: tuple[Cause, ...]


def gone_inputs(current: Manifest, inputs: Mapping[str, Planned]) -> list[str]:
    """Return one line per log file of the published version that is not there any more.

    Partitions of topics are not counted: they go only with their topic, whose identity differs
    then, or with the topic's name in the specification.
    """
    files = {name for name, old in current.inputs.items() if unit_of_input(old) == "bytes"}
    return [f"{source}: it is gone" for source in sorted(files - inputs.keys())]


def replaced_error(version: str, lines: Sequence[str]) -> SourceReplacedError:
    """Return the error for a version whose source was replaced; one line for each input."""
    return SourceReplacedError(
        f"inputs of {version} were replaced: {first_few(lines)}; the published version stays; to"
        " make the next generation from what is there now, run again with --rebuild WHY (Airflow:"
        " parameter 'rebuild')"
    )


def refusal_of(
    version: PublishedVersion,
    recipe: Recipe,
    inputs: Mapping[str, Planned],
    now: JsonObject,
    uploads: Sequence[AppliedUpload],
) -> TrainFeedError:
    """Return the error for a version that differs from now; see ``conflict_error``."""
    if replaced := replaced_inputs(version.manifest, inputs):
        return replaced_error(version.name, replaced)
    return conflict_error(version, recipe, now, uploads)


def conflict_error(
    version: PublishedVersion,
    recipe: Recipe,
    now: JsonObject,
    uploads: Sequence[AppliedUpload],
) -> ConflictError:
    """Return the error for a version of another fingerprint, with the values that differ.

    Args:
        version: The published version.
        recipe: Specification and code of now.
        now: The values of the fingerprint of now.
        uploads: The uploads of now.
    """
    folder, interval, current = version
    try:
        ref = PlanRef(folder.name, interval, current.plan)
        published = load_plan(folder, ref).fingerprint_of
    except NotFoundError:
        # Without the plan, the manifest has only these two values to compare. The others are in
        # the fingerprint, which shows that something differs, but not what.
        published = {"code": current.code["digest"], "lookups": current.lookups}
        now = {key: now[key] for key in published}
    published = told_uploads(published, current.uploads.get("files", []))
    now = told_uploads(now, [asdict(upload) for upload in uploads])
    changes, code = told_changes(folder, recipe.texts, published, now)
    return ConflictError(
        f"{version.name} is published from other inputs: {changes or 'its plan file is gone'}; the"
        " published version stays; to leave it as it is, run again with --outdated keep; to make"
        " the next generation from what is there now, with --outdated rebuild, or with --rebuild"
        " WHY for a reason of your own (Airflow: parameters 'outdated' and 'rebuild');"
        f" trainfeed outdated {folder.name} lists all such intervals{code}"
    )
