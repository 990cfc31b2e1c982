"""The steps of a conversion in different processes: plan, scatter, gather, publish."""

from __future__ import annotations

from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from trainfeed.conversion.formats import open_sample_file
from trainfeed.conversion.journal import owned_folder
from trainfeed.conversion.plan import ConversionPlan, ConversionRequest, Roots
from trainfeed.conversion.record_files import ConvertOptions
from trainfeed.conversion.shard_set import Staging, finish_publication, write_shards
from trainfeed.conversion.sorting import RunBuilder, iter_sorted, num_samples_of
from trainfeed.conversion.spill import Spill
from trainfeed.conversion.to_shards import add_file
from trainfeed.core import canonical_json, faults
from trainfeed.errors import (
    ConflictError,
    FormatError,
    NonDeterminismError,
    NotFoundError,
    TrainFeedError,
)
from trainfeed.files import UnfinishedFile, listed, make_folders
from trainfeed.files.attempts import attempt
from trainfeed.files.records import RecordFile
from trainfeed.files.stores import Location
from trainfeed.files.stores.posix import map_errors, remove_tree, rename_directory, sync_dir
from trainfeed.versions.shards import ShardInfo, ShardManifest

# --- The steps of a conversion in different processes: plan, scatter, gather, publish

_OPTIONS: Final = ConvertOptions()
_MAX_UNITS: Final = 64
_REMEDY: Final = "give the machine or container more memory, or run fewer such tasks at once in it"


@dataclass(frozen=True)
class _UnitAccount:
    """The shards that a unit has written."""

    plan: str
    unit: int
    shards: list[dict[str, Any]]


_ACCOUNTS: Final = RecordFile(
    _UnitAccount,
    "the account of a unit",
    "nothing was published; remove the file, and clear the step that writes the shards of the unit",
    mode=0o644,
    max_bytes=canonical_json.MAX_BYTES,
)


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
        NonDeterminismError: An earlier attempt at the unit wrote other shards.
        StorageError: The file system refused.
    """
    plan = _plan(roots, plan_name)
    wanted = plan.sizes_of(unit)
    report = {"unit": unit, "shards": len(wanted), "samples": sum(size for _, size in wanted)}
    if not wanted:
        return {"verdict": "idle", **report}
    if _is_done(plan, unit):
        return {"verdict": "adopted", **report}
    with map_errors(plan.staging):
        make_folders(plan.staging)
    try:
        # Each attempt has a folder of its own: one that is believed dead may still be writing.
        with owned_folder(plan.staging, f".{plan.target.prefix}.unit-{unit:05d}.") as folder:
            infos = _write_unit(plan, unit, folder)
            _settle(plan, unit, folder, infos)
    except NonDeterminismError:
        raise
    except TrainFeedError:
        # Another attempt has finished the unit meanwhile, and the publication removed this folder.
        if not _is_done(plan, unit):
            raise
        return {"verdict": "adopted", **report}
    return {"verdict": "built", **report}


def _write_unit(plan: ConversionPlan, unit: int, folder: Path) -> list[ShardInfo]:
    """Write the shards of a unit to a folder."""
    numbers = plan.shards_of(unit)
    shards = plan.target.shards(plan.num_samples)
    wanted = shards[numbers.start : numbers.stop]
    with ExitStack() as closing:
        closing.enter_context(_attempt(plan, f"gather-{unit}"))
        spills = [
            closing.enter_context(Spill.open(_spill_path(plan, each)))
            for each in range(plan.num_units)
            if plan.files_of(each)
        ]
        _require_count(num_samples_of(spills), plan.num_samples, str(plan.folder))
        start = sum(size for _, size in shards[: numbers.start])
        stop = start + sum(size for _, size in wanted)
        samples = iter_sorted(spills, start, stop, memory_bytes=_OPTIONS.memory_bytes)
        written = write_shards(samples, folder, wanted, shard_format=plan.target.shard_format)
        return list(written)


def _settle(plan: ConversionPlan, unit: int, folder: Path, infos: list[ShardInfo]) -> None:
    """Write the account of a unit, and give the folder of the attempt the unit's name."""
    sync_dir(folder)
    faults.point("convert.before_account")
    path = _account_path(plan, unit)
    account = _UnitAccount(plan.name, unit, [info.to_json() for info in infos])
    if not _ACCOUNTS.write_once(path, account) and _account(plan, unit) != infos:
        raise NonDeterminismError(
            f"two attempts at unit {unit} of conversion {plan.folder.name} wrote different shards;"
            " nothing was published; run the conversion again, with one version of trainfeed and"
            f" its libraries on all machines; the account of the first is {path}"
        )
    place = _unit_path(plan, unit)
    try:
        rename_directory(folder, place)
    except ConflictError:
        # Another attempt was first; what an attempt has left incomplete is replaced.
        if any(info.problem(place, deep=False) for info in infos):
            remove_tree(place)
            rename_directory(folder, place)
    for each in (plan.staging, plan.staging.parent):
        sync_dir(each)


def publish_conversion(roots: Roots, plan_name: str) -> dict[str, Any]:
    """Make the shards visible and remove the spill files.

    Returns:
        ``verdict`` (``published``, or ``adopted`` if the set was published before), ``output``,
        and the numbers of ``shards``, ``samples`` and ``bytes``.

    Raises:
        NotFoundError: Shards of a unit are missing.
        FormatError: A shard has not the size that the account of its unit says.
        StorageError: The file system refused.
    """
    plan = _plan(roots, plan_name)
    target = plan.target
    manifest = target.manifest(tuple(_accounts(plan)))
    # A publication that was killed is finished first; then this one may be done already.
    finish_publication(target.output, target.prefix)
    verdict = "published"
    staging = plan.staging
    if staging.exists() and _flatten(plan, manifest):
        Staging(target.output, target.prefix, staging).publish(manifest)
    elif ShardManifest.load(target.output, target.prefix) == manifest:
        verdict = "adopted"
        # A late attempt at a unit may have made the folder again.
        remove_tree(staging)
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
    if (found := _ACCOUNTS.read(path, plan=plan.name, unit=unit)) is None:
        raise NotFoundError(f"{path}: there is no account of unit {unit}")
    infos = [ShardInfo.from_json(each) for each in found.shards]
    if [(info.name, info.num_records) for info in infos] != plan.sizes_of(unit):
        raise FormatError(
            f"expected {_ACCOUNTS.what} with the shards of the plan; {_ACCOUNTS.remedy}",
            path=str(path),
        )
    return infos


def _unit_path(plan: ConversionPlan, unit: int) -> Path:
    return plan.staging / f"unit-{unit:05d}"


def _is_done(plan: ConversionPlan, unit: int) -> bool:
    """Return whether the unit has its account and its shards, staged or published."""
    # An account alone is no proof: the shards may have been removed or cut since.
    return _account_path(plan, unit).exists() and (_has_shards(plan, unit) or _is_published(plan))


def _has_shards(plan: ConversionPlan, unit: int) -> bool:
    """Return whether the staging folder has the shards of the unit, each with its size."""
    # In this order: a publication moves shards from the first place to the second.
    places = (_unit_path(plan, unit), plan.staging)
    return all(
        any(info.problem(place, deep=False) is None for place in places)
        for info in _account(plan, unit)
    )


def _is_published(plan: ConversionPlan) -> bool:
    try:
        manifest = ShardManifest.load(plan.target.output, plan.target.prefix)
        wanted = plan.target.manifest(tuple(_accounts(plan)))
    except NotFoundError:
        return False
    return manifest == wanted and not manifest.problems(plan.target.output)


def _flatten(plan: ConversionPlan, manifest: ShardManifest) -> bool:
    """Move the shards of all units into one folder; an earlier attempt may have moved some.

    Returns:
        Whether all are there; False if they are not, and the set is published already.

    Raises:
        NotFoundError: A shard is missing.
        FormatError: A shard has not the size that the account of its unit says.
    """
    staging = plan.staging
    with map_errors(staging):
        for folder in listed(staging, "unit-*"):
            for path in list(folder.iterdir()):
                path.replace(staging / path.name)
            folder.rmdir()
        if problem := next(
            filter(None, (shard.problem(staging, deep=False) for shard in manifest.shards)), None
        ):
            if _is_published(plan):
                return False
            kind = NotFoundError if problem.endswith("missing") else FormatError
            raise kind(
                f"{staging}: {problem}; nothing was published; clear the step that writes it"
            )
        # Folders and files of attempts that were killed, or that still run and are not needed.
        for path in list(staging.iterdir()):
            if not manifest.names(path.name):
                remove_tree(path)
    return True


def _require_count(found: int, expected: int, path: str) -> None:
    if found != expected:
        raise FormatError(
            f"expected {expected} samples as planned, got {found}; run the conversion again",
            path=path,
        )
