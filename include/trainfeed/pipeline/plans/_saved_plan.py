"""Writes the plan file, or adopts the plan that another run wrote for the same generation."""

from __future__ import annotations

import logging
from typing import Final

from trainfeed.dataset import DatasetFolder
from trainfeed.errors import FormatError, NotFoundError
from trainfeed.pipeline.plans._plan_file import PLANS, Plan, load_plan
from trainfeed.pipeline.plans._references import read_statistics

__all__ = ["save_plan"]

logger = logging.getLogger(__name__)

# The fields that follow from how the inputs are cut into pieces.
_CUT: Final = ("ranges", "ingest", "preprocess", "convert")


def save_plan(folder: DatasetFolder, plan: Plan, *, joins: bool = False) -> Plan:
    """Write the plan file, or adopt the plan that already has the name.

    A plan of the same name has the same fingerprint, hence the same inputs, code and specification.
    If it differs in anything else (library versions, gates), an unfinished run of another
    deployment wrote it, and the new plan replaces it. The tasks of the other run notice that and
    fail with CodeChangedError. A plan that differs in its references alone is adopted, as long as
    they can be opened: between the two runs, earlier intervals were published or built again. Who
    made a plan alone makes no difference either. A damaged file is replaced.

    Args:
        folder: The data set below the publication root.
        plan: The plan.
        joins: Whether a plan is adopted, too, that differs in the reason of its rebuild alone: two
            runs that build the same generation for different reasons so end with one of them. The
            pieces of a replay, whose landing files are there, are adopted with it.

    Returns:
        The plan that every stage will read.

    Raises:
        StorageError: The publication root refused or failed. No plan was changed.
    """
    path = folder.plan(plan.interval_name, plan.plan_id)
    if not PLANS.write_once(path, plan) and not _is_same(folder, plan, joins=joins):
        PLANS.replace(path, plan)
    return load_plan(folder, plan.ref())


def _is_same(folder: DatasetFolder, plan: Plan, *, joins: bool) -> bool:
    """Whether the plan file has the content of ``plan``, but for references that are usable.

    With ``joins``, the reason of the rebuild may be another one, too, and the cut of a replay.
    """
    try:
        found = load_plan(folder, plan.ref())
    except FormatError as error:
        logger.warning("a plan that is not published is written again: %s", error)
        return False
    except NotFoundError:
        return False  # removed since
    if found.to_bytes() == plan.to_bytes():
        return True
    others = ["references", "made_by"]
    if joins:
        others += ["rebuild", "supersedes", *(_CUT if found.made_by == "replay" else ())]
    update = {name: getattr(plan, name) for name in others}
    alike = found.model_copy(update=update).to_bytes() == plan.to_bytes()
    reads = read_statistics(found.quality)
    return alike and all(each.is_usable(folder, statistics=reads) for each in found.references)
