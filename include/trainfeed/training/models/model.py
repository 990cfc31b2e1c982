"""Published models: their folder, manifests, opened versions, and records of removed ones."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Final

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

from trainfeed.core import canonical_json
from trainfeed.core.accounts import person
from trainfeed.core.version_names import check_version_name
from trainfeed.errors import ConfigError, ConflictError, FormatError, NotFoundError, StorageError
from trainfeed.files import is_there, listed, listed_folder
from trainfeed.files.records import RecordFile, record_of
from trainfeed.files.stores import posix
from trainfeed.files.stores.folder_manifest import TRANSFER_MANIFEST, check_inner_name
from trainfeed.specification import SPEC_FILE, DatasetSpec, check_name, did_you_mean, load_spec
from trainfeed.versions.layout import MANIFEST, MANIFEST_DIGEST, MODELS
from trainfeed.versions.publication import folder_problems, read_manifest_file

# --- The paths of models below the publication root

_VERSION: Final = re.compile(r"v([0-9]{4,})")
_RECORD: Final = re.compile(r"v([0-9]{4,})\.json")
_ALIASES: Final = "aliases"
_REMOVED: Final = "removed"


def model_version(number: int) -> str:
    """Return the folder name of a version of a model, ``v0001`` for 1."""
    return f"v{number:04d}"


def is_version(name: str) -> bool:
    """Return whether a text has the form of a version, ``v0001``."""
    return _VERSION.fullmatch(name) is not None


def parse_version(name: str) -> int:
    """Return the number of a version from its folder name, 1 for ``v0001``.

    Raises:
        ConfigError: ``name`` has another form.
    """
    match = _VERSION.fullmatch(name)
    if match is None:
        raise ConfigError(f"expected the version of a model like v0001, got {name[:80]!r}")
    return int(match[1])


def _numbers(form: re.Pattern[str], folder: Path) -> Iterator[int]:
    matches = (form.fullmatch(path.name) for path in listed(folder))
    return (int(match[1]) for match in matches if match)


@dataclass(frozen=True)
class ModelFolder:
    """The paths of one model; no method creates anything.

    Attributes:
        models: The folder of all models.
        name: Name of the model.
    """

    models: Path
    name: str

    @property
    def path(self) -> Path:
        """The model's own folder."""
        return self.models / check_name(self.name, what="model")

    @property
    def staging(self) -> Path:
        """The folder of unpublished versions of all models."""
        return self.models / "_staging"

    def staged(self, identity: str, number: int) -> Path:
        """The folder of one version before it is published; ``identity`` is its job's."""
        return self.staging / f"{identity[:16]}-{model_version(number)}"

    def version(self, number: int) -> Path:
        """The folder of one version."""
        return self.path / model_version(number)

    def alias(self, alias: str) -> Path:
        """The folder with the changes of an alias.

        Raises:
            ConfigError: No alias may have that name.
        """
        return self.path / _ALIASES / check_version_name(alias, what="alias")

    def removal(self, number: int) -> Path:
        """The record of a version that retention removed."""
        return self.path / _REMOVED / f"{model_version(number)}.json"

    def versions(self) -> list[int]:
        """Numbers of the versions, ascending, without those whose removal has begun.

        Raises:
            StorageError: The publication root refused or failed.
        """
        # First the folders: a removal writes its record, and then takes the folder away.
        folders = self._folders()
        return sorted(folders - set(self.removed_versions()))

    def removed_versions(self) -> list[int]:
        """Numbers of the versions that retention removed, or has begun to remove, ascending.

        Raises:
            StorageError: The publication root refused or failed.
        """
        return sorted(_numbers(_RECORD, self.models / self.name / _REMOVED))

    def half_removed_versions(self) -> list[int]:
        """Numbers of the versions with a record whose folder is there, ascending.

        Raises:
            StorageError: The publication root refused or failed.
        """
        return sorted(set(self.removed_versions()) & self._folders())

    def lost_versions(self) -> list[int]:
        """Numbers below the last one that have neither a version nor a record of its removal.

        Numbers are given one after the other, so that somebody has taken these away by hand.

        Raises:
            StorageError: The publication root refused or failed.
        """
        known = self._folders().union(self.removed_versions())
        return sorted(set(range(1, max(known, default=0))) - known)

    def next_number(self) -> int:
        """The number of the next version: no number is used twice.

        Raises:
            StorageError: The publication root refused or failed.
        """
        return max(self._folders().union(self.removed_versions()), default=0) + 1

    def _folders(self) -> set[int]:
        return set(_numbers(_VERSION, self.models / self.name))

    def aliases(self) -> list[str]:
        """Names of the aliases, sorted.

        Raises:
            FormatError: Something else than a folder is in the place of the aliases.
            StorageError: The publication root refused or failed.
        """
        return sorted(path.name for path in listed_folder(self.path / _ALIASES))


@dataclass(frozen=True)
class ModelsFolder:
    """The models below a publication root.

    Attributes:
        root: The publication root.
    """

    root: Path

    @property
    def path(self) -> Path:
        """The folder of all models."""
        return self.root / MODELS

    @property
    def start_models(self) -> Path:
        """The folder of the downloaded models from which trainings start."""
        return self.path / "_start"

    def start_model(self, digest: str) -> Path:
        """The folder of a downloaded model; ``digest`` is the SHA-256 of its manifest."""
        return self.start_models / digest

    def model(self, name: str) -> ModelFolder:
        """The paths of one model, which need not exist."""
        return ModelFolder(self.path, name)

    def known(self, name: str) -> ModelFolder:
        """The paths of a model that has at least one version.

        Raises:
            NotFoundError: There is no such model; the message names the nearest one.
        """
        if name not in (names := self.names()):
            hint = did_you_mean(name, names) if names else "no training has made one yet"
            raise NotFoundError(f"expected a model of {self.path}, got {name[:80]!r}; {hint}")
        return self.model(name)

    def names(self) -> list[str]:
        """Names of the models that have a version, sorted.

        Raises:
            StorageError: The publication root refused or failed.
        """
        # A data set of an earlier trainfeed may be called "models"; then its folders ("versions",
        # "plans", …) lie here. They contain no folder like v0001.
        names = (path.name for path in listed(self.path) if not path.name.startswith(("_", ".")))
        return [name for name in names if ModelFolder(self.path, name).versions()]


# --- The manifest of a model: its files, the job that made it, the data that the job read

FORMAT: Final = 1


def check_file_name(name: str) -> str:
    """Return ``name`` if it is a relative POSIX path that a file of a model may have.

    Raises:
        ValueError: The path leads out of the folder, is too long or too deep, is not printable, or
            is that of a manifest file, also the one of transfers.
    """
    check_inner_name(name)
    if name in {MANIFEST, MANIFEST_DIGEST, TRANSFER_MANIFEST}:
        raise ValueError(f"expected a name that is not a manifest's, got {name!r}")
    return name


_Digest = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
_FileName = Annotated[str, AfterValidator(check_file_name)]


class _ModelPart(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class ModelFile(_ModelPart):
    """A file of the model: its relative path, its size in bytes, its SHA-256 in hex."""

    name: _FileName
    bytes: Annotated[int, Field(ge=0)]
    sha256: _Digest


class ModelData(_ModelPart):
    """A version of a data set that the job read.

    ``fingerprint`` is None when the version was removed before the model was promoted.
    """

    interval: str
    generation: str
    content_digest: str
    manifest_sha256: str
    fingerprint: str | None


class ModelJob(_ModelPart):
    """The job that made the model; ``code`` is the digest of the Python files that ran."""

    dataset: str
    interval: str
    name: str
    identity: str
    entry: str | None
    code: str
    seed: int
    ranks: int


class ModelManifest(_ModelPart):
    """The content of a model's ``MANIFEST.json``.

    Attributes:
        format: Number of the format, 1.
        model: Name of the model.
        version: Number of the version.
        job: The job that made the model.
        data: The versions that the job read, in order of intervals.
        data_digest: One digest of the contents of ``data``: metrics of models with equal digests
            can be compared.
        metrics: Name to number, of the training and, if there is one, of the evaluation.
        files: The files of the model, sorted by name.
    """

    format: int
    model: str
    version: Annotated[int, Field(ge=1)]
    job: ModelJob
    data: list[ModelData]
    data_digest: _Digest
    metrics: dict[str, float]
    files: list[ModelFile]

    def to_bytes(self) -> bytes:
        """Return the canonical JSON."""
        return canonical_json.dumps(self.model_dump())

    def file_digests(self) -> dict[str, tuple[int, str]]:
        """Return name → (bytes, sha256) of every file of the model."""
        return {file.name: (file.bytes, file.sha256) for file in self.files}

    @property
    def num_bytes(self) -> int:
        """Bytes of all files of the model."""
        return sum(file.bytes for file in self.files)

    @classmethod
    def from_bytes(cls, data: bytes, *, path: str) -> ModelManifest:
        """Parse a manifest, trusting nothing.

        Raises:
            FormatError: The data are no manifest of a model, or a newer trainfeed wrote them.
        """
        value: Any = canonical_json.loads(data, path=path)
        if isinstance(value, dict) and value.get("format") != FORMAT:
            raise FormatError(
                f"expected the manifest of a model of format {FORMAT}, got"
                f" {value.get('format')!r}; a newer trainfeed wrote it",
                path=path,
            )
        try:
            return cls.model_validate(value)
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            place = ".".join(map(str, first["loc"]))
            raise FormatError(
                f"expected the manifest of a model: {place}: {first['msg']}", path=path
            ) from error


# --- The record of a version that retention removed: ``removed/v0003.json`` in the model's folder

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class RemovedModel:
    """A version of a model whose files are gone.

    Attributes:
        manifest: Its manifest.
        manifest_sha256: SHA-256 of the manifest in hex.
        at: Time of the removal, as ``2026-03-08T00:00:00Z``.
        who: The person, or the run of a DAG.
        account: The account of the process.
        why: The rule, as ``keep: 10``.
    """

    manifest: ModelManifest
    manifest_sha256: str
    at: str
    who: str
    account: str
    why: str

    @property
    def name(self) -> str:
        """``<model>/<version>``, as in ``flights/v0003``."""
        return f"{self.manifest.model}/{model_version(self.manifest.version)}"

    @property
    def told(self) -> str:
        """Who, when and why, for messages."""
        who = person(self.who, self.account)
        return f"{self.name} was removed at {self.at} by {who} ({self.why})"

    @classmethod
    def read(cls, folder: ModelFolder, number: int) -> RemovedModel | None:
        """Return the record of a version, or None if the version was not removed.

        Raises:
            FormatError: The record is damaged.
            StorageError: The publication root refused or failed.
        """
        name = f"{folder.name}/{model_version(number)}"
        return _REMOVED_FILE.read(folder.removal(number), name=name)

    def write(self, folder: ModelFolder) -> None:
        """Write the record, unless there is one.

        Raises:
            StorageError: The publication root refused or failed.
        """
        _REMOVED_FILE.write_once(folder.removal(self.manifest.version), self)

    def to_json(self) -> dict[str, Any]:
        """Return the description of the version for reports and commands, as JSON values."""
        removed = {"at": self.at, "who": self.who, "account": self.account, "why": self.why}
        return {**model_facts(self.manifest, self.manifest_sha256), "removed": removed}


def _removed_to_json(removed: RemovedModel) -> dict[str, Any]:
    return {**vars(removed), "manifest": removed.manifest.model_dump()}


def _removed_from_json(value: dict[str, Any]) -> RemovedModel:
    manifest = ModelManifest.model_validate(value["manifest"])
    return record_of(RemovedModel, {**value, "manifest": manifest})


_REMOVED_FILE: Final = RecordFile(
    RemovedModel,
    "the record of a removed version of a model",
    "the version is gone all the same; bring the record back from a backup",
    max_bytes=canonical_json.MAX_BYTES,
    to_json=_removed_to_json,
    from_json=_removed_from_json,
)


def model_facts(manifest: ModelManifest, manifest_sha256: str) -> dict[str, Any]:
    """Return what a manifest says, for reports and commands, as JSON values."""
    return {
        "model": manifest.model,
        "version": model_version(manifest.version),
        "job": manifest.job.name,
        "interval": manifest.job.interval,
        "data": [f"{each.interval}/{each.generation}" for each in manifest.data],
        "metrics": dict(manifest.metrics),
        "files": len(manifest.files),
        "bytes": manifest.num_bytes,
        "manifest_sha256": manifest_sha256,
    }


def require_kept(folder: ModelFolder, number: int) -> None:
    """Refuse a version that retention removed, or has begun to remove.

    Raises:
        NotFoundError: It was removed; the message says who did, when and why.
        FormatError: It was removed, and the record is damaged.
        StorageError: The publication root refused or failed.
    """
    if not is_there(folder.removal(number)):
        return
    removed = RemovedModel.read(folder, number)
    if removed is not None:
        raise NotFoundError(
            f"{removed.told}; choose another version: trainfeed models ls {folder.name}"
        )


def refuse_removed(folder: ModelFolder, identity: str) -> None:
    """Refuse a job whose version was removed: a job never becomes a version a second time.

    Args:
        folder: The model.
        identity: Identity of the job.

    Raises:
        ConflictError: The job made a version that was removed.
        StorageError: The publication root refused or failed.
    """
    for number in folder.removed_versions():
        try:
            removed = RemovedModel.read(folder, number)
        except FormatError as error:
            logger.warning("which job made a removed version cannot be told: %s", error)
            continue
        if removed is None or removed.manifest.job.identity != identity:
            continue
        job = removed.manifest.job
        raise ConflictError(
            f"job {job.name} made {removed.name}, but {removed.told}; nothing was made: a job"
            " becomes a version once; for a new one, give the job other data (trainfeed build"
            f" {job.dataset} --interval {job.interval} --rebuild 'WHY') or other code, and train"
        )


# --- A published model, opened and verified

# Errors of a version whose folder or manifest is not what was published. Other errors of the file
# system say nothing about the version.
DAMAGED: Final = (FormatError, NotFoundError)


@dataclass(frozen=True)
class Model:
    """One immutable version of a model.

    Attributes:
        path: Folder with the files of the model.
        manifest: Manifest of the model, whose digest was verified.
        manifest_sha256: SHA-256 of the manifest in hex.
    """

    path: Path
    manifest: ModelManifest
    manifest_sha256: str

    @classmethod
    def open(cls, folder: ModelFolder, number: int) -> Model:
        """Open a version; the manifest is verified, other files are not.

        Raises:
            NotFoundError: There is no version of that number, or retention removed it; then the
                message says who did, when and why.
            ChecksumError: The manifest was changed after its publication.
            FormatError: The manifest is damaged, or names another model or version.
            StorageError: The file system refused or failed.
        """
        try:
            return cls.read(folder.version(number), folder.name, number)
        finally:
            # Also for a version that is there: its removal begins with the record. And only after
            # the reading, so that a removal meanwhile is not taken for damage.
            require_kept(folder, number)

    @classmethod
    def read(cls, path: Path, name: str, number: int) -> Model:
        """Open the folder of a version, wherever it lies; see ``open``."""
        data, digest = read_manifest_file(path, what="model")
        manifest = ModelManifest.from_bytes(data, path=str(path / MANIFEST))
        if (manifest.model, manifest.version) != (name, number):
            raise FormatError(
                f"expected model {name}/{model_version(number)}, the manifest says"
                f" {manifest.model}/{model_version(manifest.version)}; nothing was read; restore"
                " the right folder from a backup",
                path=str(path),
            )
        return cls(path, manifest, digest)

    @property
    def name(self) -> str:
        """``<model>/<version>``, as in ``flights/v0003``."""
        return f"{self.manifest.model}/{model_version(self.manifest.version)}"

    def problems(self) -> Iterator[FormatError | StorageError]:
        """Yield every difference between the folder and the manifest; all files are read."""
        own = {MANIFEST, MANIFEST_DIGEST}
        yield from folder_problems(self.path, self.manifest.file_digests(), own)

    def verify(self) -> None:
        """Compare the folder with the manifest: exact listing, sizes, digests of every file.

        Raises:
            ChecksumError: A file differs from the manifest in size or digest.
            FormatError: A file is missing, is not in the manifest, or is no plain file.
            StorageError: A file cannot be read.
        """
        for problem in self.problems():
            raise problem

    def to_json(self) -> dict[str, Any]:
        """Return the description of the model for reports and commands, as JSON values."""
        facts = model_facts(self.manifest, self.manifest_sha256)
        return {**facts, "path": str(self.path)}


# --- A version of a model, or the record of one that retention removed


def known_model(folder: ModelFolder, number: int) -> Model | RemovedModel:
    """Return a version, or its record if it was removed.

    Raises:
        NotFoundError: There was never a version of that number.
        FormatError: The manifest, or the record, is damaged.
        StorageError: The publication root refused or failed.
    """
    return RemovedModel.read(folder, number) or Model.open(folder, number)


# --- A process that works with the files of a version for long keeps retention from removing it


@contextmanager
def hold_model(folder: ModelFolder, number: int) -> Iterator[Model]:
    """Open a version, and keep it from being removed in the block.

    Where the account may set no locks, the version is opened all the same, with a warning.

    Args:
        folder: The model.
        number: Number of the version.

    Raises:
        NotFoundError: There is no such version, or retention removed it.
        FormatError: The manifest is damaged.
        StorageError: The file system refused or failed.
    """
    path = Model.open(folder, number).path / MANIFEST
    with ExitStack() as stack:
        try:
            stack.enter_context(posix.shared_lock(path))
        except NotFoundError:
            pass  # a removal was faster, or the folder was moved: said below
        except StorageError as error:
            logger.warning("retention does not see that %s is in use: %s", path.parent, error)
        yield Model.open(folder, number)


# --- The data set of a model, for changes by hand, which name the model only


def spec_of_model(folder: ModelFolder, datasets: Path) -> DatasetSpec | None:
    """Return the data set whose training made the newest version of a model; None if not here.

    Args:
        folder: The model, which has a version.
        datasets: Folder of the data sets.

    Raises:
        FormatError: The manifest of the newest version is damaged.
        NotFoundError: The newest version has no manifest.
        SpecError: The data set's dataset.yaml is wrong.
    """
    newest = Model.open(folder, folder.versions()[-1])
    home = datasets / newest.manifest.job.dataset
    return load_spec(home) if (home / SPEC_FILE).is_file() else None
