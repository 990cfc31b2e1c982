"""The manifest of a model: its files, the job that made it, the data that the job read.

The manifest is a pure function of the job, its result and the version's number: every attempt to
publish the model writes the same bytes.
"""

from __future__ import annotations

from typing import Annotated, Any, Final

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

from trainfeed import canonical_json
from trainfeed.dataset.layout import MANIFEST, MANIFEST_DIGEST
from trainfeed.errors import FormatError
from trainfeed.storage.folder_manifest import TRANSFER_MANIFEST, check_inner_name

__all__ = ["FORMAT", "ModelData", "ModelFile", "ModelJob", "ModelManifest", "check_file_name"]

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
