"""Whether today's code, specification and lookups are those of a plan; kept lookups are data.

The text of earlier code is kept, too, but only to be shown: code runs from the folder of the data
set alone. A lookup file that changed is taken from the kept ones, by its digest.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from trainfeed.dataset import DatasetFolder
from trainfeed.errors import CodeChangedError
from trainfeed.paths import make_folders, open_plain
from trainfeed.pipeline.plans import Plan, kept_lookup, told_changes
from trainfeed.specification import SPEC_FILE, DatasetSpec, fingerprint_fields, load_spec
from trainfeed.usercode import code_texts, digest_of_texts, lookup_digests, running_libraries

__all__ = ["changed_libraries", "require_same_code", "spec_of_plan"]


def require_same_code(spec: DatasetSpec, folder: DatasetFolder, plan: Plan) -> None:
    """Refuse code or a specification that would not make the bytes of the plan.

    Raises:
        CodeChangedError: The code or the specification differs; the message says where.
    """
    texts = code_texts(spec)
    planned = {"code": plan.code["digest"], "spec": plan.fingerprint_of["spec"]}
    running = {"code": digest_of_texts(texts), "spec": fingerprint_fields(spec, plan.rules)}
    changes, code = told_changes(folder, texts, planned, running)
    if changes:
        files = code.strip().partition("\n")[0]
        raise CodeChangedError(
            f"code or specification are not those of plan {plan.plan_id}:"
            f" {'; '.join(filter(None, [changes, files]))}; its files cannot be made again with"
            f" what {spec.folder} has now"
        )


def spec_of_plan(
    spec: DatasetSpec, folder: DatasetFolder, plan: Plan, scratch: Path
) -> DatasetSpec:
    """Return a specification with the lookup files of a plan; ``spec`` if they are today's.

    Args:
        spec: The specification of now, with the code of the plan.
        folder: The data set, which keeps lookup files by their digests.
        plan: The plan.
        scratch: A temporary folder for a copy of the data set's folder.

    Raises:
        CodeChangedError: A lookup file differs, and its earlier content was not kept.
    """
    now = lookup_digests(spec)
    if now == plan.lookups:
        return spec
    if now.keys() != plan.lookups.keys():
        raise CodeChangedError(
            f"the lookups of plan {plan.plan_id} are {_names(plan.lookups)}, dataset.yaml has"
            f" {_names(now)} now; put it back to the state of that time"
        )
    target = scratch / "datasets" / spec.name
    _write(target / SPEC_FILE, _read(spec.folder / SPEC_FILE))
    for name, text in code_texts(spec).items():
        _write(target / name, text)
    for name, digest in plan.lookups.items():
        data = _read(spec.folder / spec.lookups[name]) if now[name] == digest else None
        place = target / spec.lookups[name]
        _write(place, _kept(folder, name, digest) if data is None else data)
    return load_spec(target)


def changed_libraries(plan: Plan) -> list[str]:
    """Return the libraries with another version than the plan's, as ``numpy 2.0 → 2.1``."""
    running = running_libraries()
    return [
        f"{name} {plan.libraries.get(name, 'none')} → {running.get(name, 'none')}"
        for name in sorted(running.keys() | plan.libraries.keys())
        if running.get(name) != plan.libraries.get(name)
    ]


def _kept(folder: DatasetFolder, name: str, digest: str) -> bytes:
    kept = kept_lookup(folder, digest)
    if kept.data is None:
        raise CodeChangedError(
            f"lookup {name!r} changed since the plan was made, and {kept.why_not}; put the file"
            f" with SHA-256 {digest} back"
        )
    return kept.data


def _names(lookups: Mapping[str, str]) -> str:
    return ", ".join(sorted(lookups)) or "none"


def _read(path: Path) -> bytes:
    with open_plain(path, follow=True) as file:
        return file.read()


def _write(path: Path, data: bytes) -> None:
    make_folders(path.parent)
    path.write_bytes(data)
