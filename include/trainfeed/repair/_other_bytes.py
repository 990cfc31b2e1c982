"""Why a file that was made again has other bytes than the published one."""

from __future__ import annotations

from collections.abc import Mapping

from trainfeed.dataset import Version
from trainfeed.pipeline.plans import Plan
from trainfeed.repair._same_recipe import changed_libraries

__all__ = ["other_bytes"]


def other_bytes(version: Version, plan: Plan, name: str, made: Mapping[str, str]) -> str:
    """Return the cause, as far as it is known, and that nothing was changed.

    Args:
        version: The version.
        plan: Its plan.
        name: The file that was made again.
        made: Name of a shard that was made again → digest of its records.
    """
    libraries = ", ".join(changed_libraries(plan))
    if libraries:
        cause = f"the libraries have other versions than at that time: {libraries}"
    else:
        cause = (
            "the function is not a function of its record alone, or the landing files are not"
            " those of that time, as code, lookups and libraries are those of the plan"
        )
    return (
        f"made again with other bytes: {cause};{_records(version, name, made)} the damaged file"
        " was left as it is"
    )


def _records(version: Version, name: str, made: Mapping[str, str]) -> str:
    splits = version.manifest.splits.values()
    published = {shard.name: shard.records_sha256 for split in splits for shard in split.shards}
    is_same = name in made and made[name] == published.get(name)
    return " its records are the same, only stored otherwise;" if is_same else ""
