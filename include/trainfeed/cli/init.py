"""``trainfeed init`` makes a publication root; ``trainfeed index`` writes its index."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from trainfeed.cli.printing import Result, program, with_json
from trainfeed.core.config import environment_from_environ
from trainfeed.files.stores import Location
from trainfeed.remote import INDEX, write_index
from trainfeed.versions import init_root, require_writable_root
from trainfeed.versions.bucket_root import init_bucket_root
from trainfeed.versions.root import data_sets_of
from trainfeed.versions.state_folder import make_state


@with_json
def init(
    root: Annotated[
        str | None,
        typer.Argument(
            help="The folder, by default TRAINFEED_ROOT or ./data/root; or s3://bucket/prefix."
        ),
    ] = None,
) -> Result:
    """Make the publication root, the folder of all versions.

    A folder that has versions already is accepted as it is.
    Versions in the folder are not changed. Builds refuse a folder without this step, because its
    name may be misspelt, or its file system not mounted. In a bucket, the store has to prove
    that of many writers of one object one wins; the folder of TRAINFEED_STATE, where builds keep
    their plans, is made one that follows it.
    """
    env = environment_from_environ(root=root)
    env.refuse_public_root()
    place = Path(env.root)
    if env.bucket is not None:
        return _init_bucket(Location.parse(env.bucket), None if env.is_root_private else place)
    mark, is_new = init_root(place)
    report = {
        "root": str(place),
        "verdict": "made" if is_new else "known",
        "datasets": data_sets_of(place),
        **asdict(mark),
    }
    return Result(report, _line(report))


def _init_bucket(place: Location, state: Path | None) -> Result:
    mark, is_new = init_bucket_root(place)
    report = {"root": place.uri, "verdict": "made" if is_new else "known", **asdict(mark)}
    since = f"since {mark.made_at}, made by {mark.made_by}"
    told = f"made {place.uri} a root of versions" if is_new else f"{place.uri} is a root {since}"
    if state is not None:
        make_state(state, place, is_private=False)
        report["state"] = str(state)
        told += f"\n{state} follows it, for builds"
    return Result(report, told)


def _line(report: dict[str, Any]) -> str:
    names = report["datasets"]
    kept = f"data sets in it: {', '.join(names)}; untouched" if names else "no data set in it yet"
    if report["verdict"] == "known":
        since = f"since {report['made_at']}, made by {report['made_by']}"
        return f"{report['root']} is a publication root {since}; {kept}"
    return f"made {report['root']} a publication root; {kept}\nnext: {program()} ls"


@with_json
def index(
    root: Annotated[
        str | None, typer.Argument(help="The root; by default TRAINFEED_ROOT or ./data/root.")
    ] = None,
) -> Result:
    """Write the index that readers behind https:// need.

    The file index.json of the root names the versions and the decisions about them, because a
    server of files does not say what it has. Write it again after versions were published,
    withdrawn or tagged. Every manifest is verified; if one is damaged, the old index stays.
    """
    env = environment_from_environ(root=root)
    require_writable_root(env)
    found = write_index(env.root)
    path = Path(env.root) / INDEX
    report = {
        "index": str(path),
        "versions": found.num_versions,
        "files": len(found.files),
    }
    versions = f"{found.num_versions} version{'s' * (found.num_versions != 1)}"
    return Result(report, f"wrote {path} with {versions} and {len(found.files)} files")
