"""The steps of a conversion in different processes: plan, scatter, gather, publish.

``scatter`` reads the files of a unit and writes their samples to a spill file, ``gather`` writes
the shards of a unit from all spill files, ``publish`` makes them visible. Every step may be
repeated at any time: complete results are kept. The shards equal those of ``convert_files``, byte
for byte.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, ExitStack
from pathlib import Path
from typing import Any, Final

from trainfeed import canonical_json, faults
from trainfeed.attempts import attempt
from trainfeed.conversion._conversion_options import ConvertOptions
from trainfeed.conversion._convert_files import add_file
from trainfeed.conversion._foreign_input import read_small
from trainfeed.conversion.samplefiles import open_sample_file
from trainfeed.conversion.shardset import Staging, finish_publication, write_shards
from trainfeed.conversion.sorting import RunBuilder, Spill, iter_sorted, num_samples_of
from trainfeed.conversion.steps._conversion_plan import ConversionPlan, ConversionRequest
from trainfeed.conversion.steps._roots import Roots
from trainfeed.dataset.shards import ShardInfo, ShardManifest
from trainfeed.errors import FormatError, NotFoundError
from trainfeed.paths import UnfinishedFile, listed, make_folders
from trainfeed.storage import Location
from trainfeed.storage.posix import (
    create_exclusive,
    map_errors,
    remove_tree,
    sync_dir,
)

__all__ = [
    "gather_shards",
    "plan_conversion",
    "publish_conversion",
    "scatter_files",
]

_OPTIONS: Final = ConvertOptions()
_MAX_UNITS: Final = 64
_REMEDY: Final = "give the machine or container more memory, or run fewer such tasks at once in it"


def plan_conversion(
    request: ConversionRequest, roots: Roots, *, max_units: int = _MAX_UNITS
) -> dict[str, Any]:
    """Open the files and write the plan.

    Returns:
        ``plan``, the name for the calls of the other steps; ``units``, the number of tasks of each
        mapped step; and the numbers of ``files``, ``samples`` and ``shards``.

    Raises:
        ConfigError: A path is not below the roots, or the request is invalid.
        NotFoundError: A part of the input matches no file.
        FormatError: A file is damaged.
    """
    plan = ConversionPlan.make(request, roots, max_units=max_units)
    return {
        "plan": plan.folder.name,
        "units": plan.num_units,
        "files": len(plan.files),
        "samples": plan.num_samples,
        "shards": plan.target.num_shards,
    }


def scatter_files(roots: Roots, plan_name: str, unit: int) -> dict[str, Any]:
    """Write the samples of a unit's files to a spill file.

    Returns:
        ``verdict`` (``built``; ``adopted`` for a complete file of an earlier attempt; ``idle`` for
        a unit without files), and the number of ``samples``.

    Raises:
        FormatError: A file is damaged or was changed after the plan was made.
        StorageError: The file system refused.
    """
    plan = _plan(roots, plan_name)
    path = _spill_path(plan, unit)
    files = plan.files_of(unit)
    num_samples = sum(file.num_samples for file in files)
    report = {"unit": unit, "files": len(files), "samples": num_samples}
    if not files:
        return {"verdict": "idle", **report}
    if path.exists():
        return {"verdict": "adopted", **report}
    with UnfinishedFile(path) as new:
        with _attempt(plan, f"scatter-{unit}"):
            spill = Spill(new.file, str(path))
            runs = RunBuilder(spill, plan.target.seed, files[0].start, _OPTIONS)
            for file in files:
                sample_file = open_sample_file(file.require_unchanged(), plan.source)
                # The file is compared with the plan before and after reading: it must not change
                # meanwhile.
                add_file(runs, sample_file, plan.target)
                file.require_unchanged()
            runs.flush()
            _require_count(num_samples_of([spill]), num_samples, files[0].path)
            # Durable before it gets its name: a later attempt adopts every file with this name.
            new.sync()
        faults.point("convert.before_spill")
        new.replace()
    return {"verdict": "built", **report}


def gather_shards(roots: Roots, plan_name: str, unit: int) -> dict[str, Any]:
    """Write the shards of a unit.

    Returns:
        ``verdict`` (see ``scatter_files``), and the numbers of ``shards`` and ``samples``.

    Raises:
        FormatError: A spill file is damaged.
        StorageError: The file system refused.
    """
    plan = _plan(roots, plan_name)
    numbers = plan.shards_of(unit)
    shards = plan.target.shards(plan.num_samples)
    wanted = shards[numbers.start : numbers.stop]
    report = {"unit": unit, "shards": len(wanted), "samples": sum(size for _, size in wanted)}
    if not wanted:
        return {"verdict": "idle", **report}
    account = _account_path(plan, unit)
    # An account alone is no proof: the shards may have been removed since.
    if account.exists() and (_has_shards(plan, unit) or _is_published(plan)):
        return {"verdict": "adopted", **report}
    folder = plan.staging / f"unit-{unit:05d}"
    # Shards of a killed attempt have no account, and are written again.
    remove_tree(folder)
    with map_errors(folder):
        make_folders(folder)
    with ExitStack() as closing:
        closing.enter_context(_attempt(plan, f"gather-{unit}"))
        spills = [
            closing.enter_context(Spill.open(_spill_path(plan, each)))
            for each in range(plan.num_units)
            if plan.files_of(each)
        ]
        _require_count(num_samples_of(spills), plan.num_samples, str(plan.folder))
        start = sum(size for _, size in shards[: numbers.start])
        samples = iter_sorted(
            spills, start, start + report["samples"], memory_bytes=_OPTIONS.memory_bytes
        )
        written = write_shards(samples, folder, wanted, shard_format=plan.target.shard_format)
        infos = [info.to_json() for info in written]
    # The names of shards and folders are durable before the account says that they exist.
    for each in (folder, plan.staging, plan.staging.parent):
        sync_dir(each)
    faults.point("convert.before_account")
    create_exclusive(account, canonical_json.dumps(infos))
    return {"verdict": "built", **report}


def publish_conversion(roots: Roots, plan_name: str) -> dict[str, Any]:
    """Make the shards visible and remove the spill files.

    Returns:
        ``verdict`` (``published``, or ``adopted`` if the set was published before), ``output``,
        and the numbers of ``shards``, ``samples`` and ``bytes``.

    Raises:
        NotFoundError: Shards of a unit are missing.
        StorageError: The file system refused.
    """
    plan = _plan(roots, plan_name)
    target = plan.target
    manifest = target.manifest(tuple(_accounts(plan)))
    # A publication that was killed is finished first; then this one may be done already.
    finish_publication(target.output, target.prefix)
    verdict = "published"
    staging = plan.staging
    if staging.exists():
        _flatten(plan, staging)
        Staging(target.output, target.prefix, staging).publish(manifest)
    elif ShardManifest.load(target.output, target.prefix) == manifest:
        verdict = "adopted"
    else:
        raise NotFoundError(f"{staging} is not there, and {target.output} holds another set")
    faults.point("convert.after_publish")
    # The pattern includes unfinished spill files of killed attempts.
    for path in listed(plan.folder, "unit-*.spill*"):
        remove_tree(path)
    return {
        "verdict": verdict,
        "output": str(target.output),
        "shards": target.num_shards,
        "samples": manifest.num_samples,
        "bytes": manifest.num_bytes,
    }


def _plan(roots: Roots, name: str) -> ConversionPlan:
    plan = ConversionPlan.load(roots.work / "convert" / name)
    # Checked again, although the plan is a file of this program: it may have been changed.
    roots.output_folder(str(plan.target.output))
    for file in plan.files:
        roots.require_input(Path(file.path))
    return plan


def _attempt(plan: ConversionPlan, work: str) -> AbstractContextManager[None]:
    """Return the context for the work of a unit; after a kill the next attempt reports it."""
    mark = Location.parse(str(plan.folder)) / f"{work}.attempt.json"
    return attempt(mark, f"{work} of conversion {plan.folder.name}", _REMEDY)


def _spill_path(plan: ConversionPlan, unit: int) -> Path:
    return plan.folder / f"unit-{unit:05d}.spill"


def _account_path(plan: ConversionPlan, unit: int) -> Path:
    return plan.folder / f"unit-{unit:05d}.json"


def _accounts(plan: ConversionPlan) -> list[ShardInfo]:
    units = [unit for unit in range(plan.num_units) if plan.shards_of(unit)]
    return [info for unit in units for info in _account(plan, unit)]


def _account(plan: ConversionPlan, unit: int) -> list[ShardInfo]:
    path = _account_path(plan, unit)
    value = canonical_json.loads(read_small(path), path=str(path))
    return [ShardInfo.from_json(each) for each in value]


def _has_shards(plan: ConversionPlan, unit: int) -> bool:
    """Return whether the shards of the unit still exist in the staging folder."""
    places = (plan.staging / f"unit-{unit:05d}", plan.staging)
    return all(
        any((place / info.name).is_file() for place in places) for info in _account(plan, unit)
    )


def _is_published(plan: ConversionPlan) -> bool:
    try:
        manifest = ShardManifest.load(plan.target.output, plan.target.prefix)
        return manifest == plan.target.manifest(tuple(_accounts(plan)))
    except NotFoundError:
        return False


def _flatten(plan: ConversionPlan, staging: Path) -> None:
    """Move the shards of all units into one folder; an earlier attempt may have moved some."""
    with map_errors(staging):
        for folder in listed(staging, "unit-*"):
            for path in list(folder.iterdir()):
                path.replace(staging / path.name)
            folder.rmdir()
        found = {path.name for path in staging.iterdir()}
        for name, _ in plan.target.shards(plan.num_samples):
            if name not in found:
                raise NotFoundError(f"{staging / name} is not there; clear the step that writes it")
        # Files that a killed attempt has left.
        for name in found - {name for name, _ in plan.target.shards(plan.num_samples)}:
            (staging / name).unlink()


def _require_count(found: int, expected: int, path: str) -> None:
    if found != expected:
        raise FormatError(
            f"expected {expected} samples as planned, got {found}; run the conversion again",
            path=path,
        )
