"""The plan of a conversion in tasks, fixed in a file, and the folders that it may use."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Final, NamedTuple

from trainfeed.conversion.arrow import ColumnOptions
from trainfeed.conversion.csv_files import CsvOptions
from trainfeed.conversion.formats import SourceOptions
from trainfeed.conversion.input_paths import files_at, matches_of, shard_in_bucket
from trainfeed.conversion.record_files import AnyCodec, ConvertOptions
from trainfeed.conversion.shard_set import ConversionTarget
from trainfeed.conversion.to_shards import FileInputs, open_inputs
from trainfeed.core import canonical_json
from trainfeed.core.datacenters import is_shared, local_source, local_target
from trainfeed.errors import ConfigError, FormatError, NotFoundError
from trainfeed.files import FilePath, make_folders
from trainfeed.files.records import RecordFile
from trainfeed.files.stores.posix import map_errors
from trainfeed.samples import Schema
from trainfeed.versions.shards import Encoding, FileFormat, ShardFormat

# --- The folders in which a conversion that was requested over REST or Airflow may read and write


@dataclass(frozen=True)
class Roots:
    """Folders that a conversion must not leave; paths are compared without symbolic links.

    Attributes:
        inputs: Folders below which files may be read.
        outputs: Folders below which shards may be written.
        work: Folder for the files that the tasks of a conversion exchange.
    """

    inputs: tuple[Path, ...]
    outputs: tuple[Path, ...]
    work: Path

    def __post_init__(self) -> None:
        # Texts are accepted as paths too.
        object.__setattr__(self, "inputs", tuple(map(Path, map(local_source, self.inputs))))
        object.__setattr__(self, "outputs", tuple(map(Path, map(local_target, self.outputs))))
        object.__setattr__(self, "work", Path(local_target(self.work)))

    def input_files(self, pattern: str) -> list[Path]:
        """Return the real paths of the files that a path, a list with commas, or a glob stands for.

        A relative path counts from the first root. A folder stands for its version, or its set.

        Raises:
            ConfigError: A file is outside of the roots.
            NotFoundError: A part matches no file.
        """
        parts = [self._absolute(part, self.inputs) for part in pattern.split(",")]
        for part in parts:
            # Checked before the glob is expanded: "no such file" would already tell about other
            # folders.
            _require_within(Path(local_source(part)), self.inputs)
        found = [_require_within(path, self.inputs) for path in matches_of(parts)]
        return [_require_within(path, self.inputs) for each in found for path in files_at(each)]

    def require_input(self, path: FilePath) -> None:
        """Check the path of an input.

        Raises:
            ConfigError: The path is outside of the roots.
        """
        _require_within(Path(local_source(path)), self.inputs)

    def output_folder(self, path: str) -> Path:
        """Return the real path of an output folder, which need not exist.

        Raises:
            ConfigError: The path is outside of the roots.
        """
        place = local_target(self._absolute(path, self.outputs))
        return _require_within(Path(place), self.outputs)

    def _absolute(self, path: str, roots: Sequence[Path]) -> str:
        if "\0" in path or not path.strip() or ".." in Path(path).parts:
            raise ConfigError(f"expected a path without '..', got {path!r}")
        return path.strip() if is_shared(path.strip()) else str(roots[0] / path.strip())


def _require_within(path: Path, roots: Sequence[Path]) -> Path:
    with map_errors(path):
        real = path.resolve()
        if any(real.is_relative_to(root.resolve()) for root in roots):
            return real
    allowed = ", ".join(map(str, roots))
    raise ConfigError(f"expected a path below {allowed}, got {path}; move it there")


# --- The plan of a conversion in tasks, fixed in a file before any task starts

_PLAN_NAME = "plan.json"
# Part of the name of a plan: those of before were not sealed, and are not found.
_FORM: Final = 2
_COLUMN_DEFAULTS: Final = ColumnOptions()


@dataclass(frozen=True)
class ConversionRequest:
    """The request for a conversion.

    Attributes:
        input: A path, a list of paths with commas, or a glob.
        output: Folder for the shards.
        shards: Number of shards.
        prefix: Prefix of the file names.
        seed: Seed of the shuffle.
        file_format: RecordIO or TFRecord.
        codec: Name of the compression.
        run: Identifies the run for ever, among others with the same request.
        delimiter: Delimiter of CSV files; None takes the one that their headers show.
        columns: How columns of Parquet and Arrow without a matching field are converted.
    """

    input: str
    output: str
    shards: int
    prefix: str
    seed: int
    file_format: FileFormat
    codec: AnyCodec
    run: str
    delimiter: str | None = None
    columns: ColumnOptions = _COLUMN_DEFAULTS

    @property
    def source(self) -> SourceOptions:
        """Properties of the inputs that the files themselves do not state."""
        return SourceOptions(csv=CsvOptions(self.delimiter), columns=self.columns)


class ConversionInput(NamedTuple):
    """The state of an input file when the plan was made.

    Attributes:
        path: Path of the file, without symbolic links.
        num_bytes: Size of the file.
        modified_ns: Modification time in ns; 0 for a shard in a bucket.
        start: Ordinal of the first sample of the file.
        num_samples: Number of samples.
    """

    path: str
    num_bytes: int
    modified_ns: int
    start: int
    num_samples: int

    def require_unchanged(self) -> Path:
        """Check that the file has not changed, and return the path.

        Raises:
            FormatError: The file was changed after the plan was made.
        """
        if _state_of(Path(self.path)) != (self.num_bytes, self.modified_ns):
            raise FormatError(
                "the file was changed after the plan was made; run the conversion again",
                path=self.path,
            )
        return Path(self.path)


@dataclass(frozen=True)
class ConversionPlan:
    """A plan, and the folder for its files.

    Attributes:
        folder: Folder for the plan and the work files of the tasks.
        target: The files to write.
        files: The files to read.
        num_units: Number of tasks of each mapped step.
        source: How files are read.
        is_beside: Whether shards are staged beside the output folder, because it did not exist
            when the plan was made; otherwise in it.
    """

    folder: Path
    target: ConversionTarget
    files: tuple[ConversionInput, ...]
    num_units: int
    is_beside: bool
    source: SourceOptions

    @classmethod
    def make(cls, request: ConversionRequest, roots: Roots, *, max_units: int) -> ConversionPlan:
        """Open all files and write the plan, or return the plan of this run for this request.

        Raises:
            ConfigError: A path is not below the roots, or the request is invalid.
            FormatError: A file is damaged.
        """
        output = roots.output_folder(request.output)
        # The folder follows from the run and its whole request: a repeated task finds the plan of
        # its first attempt, and a run with that name and another request does not.
        wanted = {**asdict(request), "output": str(output), "form": _FORM}
        name = canonical_json.sha256_of(wanted)
        folder = roots.work / "convert" / name[:20]
        path = folder / _PLAN_NAME
        if path.exists():
            return cls.load(folder)
        inputs = open_inputs(roots.input_files(request.input), request.source)
        options = ConvertOptions(file_format=request.file_format)
        target = ConversionTarget(
            output,
            request.shards,
            request.prefix,
            request.seed,
            inputs.encoding,
            inputs.schema,
            options.shard_format(request.codec),
        )
        units = max(1, min(max_units, max(len(inputs.files), request.shards)))
        plan = cls(folder, target, _planned(inputs), units, not output.exists(), request.source)
        with map_errors(folder):
            make_folders(folder)
        # Of two attempts at the same time only one writes; both then load the same plan.
        _FILE.write_once(path, plan)
        return cls.load(folder)

    @classmethod
    def load(cls, folder: Path) -> ConversionPlan:
        """Read a plan.

        Raises:
            NotFoundError: The plan does not exist.
            FormatError: The plan is damaged, or that of another conversion.
        """
        path = folder / _PLAN_NAME
        if (found := _FILE.read(path, name=folder.name)) is None:
            raise NotFoundError(f"{path}: there is no such plan")
        return replace(found, folder=folder)

    @property
    def name(self) -> str:
        """Name of the plan, that of its folder."""
        return self.folder.name

    @property
    def num_samples(self) -> int:
        """Number of samples in all files."""
        return sum(file.num_samples for file in self.files)

    @property
    def staging(self) -> Path:
        """Staging folder of the shards: a hidden folder in the file system of the output."""
        output, prefix = self.target.output, self.target.prefix
        if self.is_beside:
            # A new output is made as a sibling, and becomes the output by one rename.
            return output.parent / f".{output.name}.{prefix}.{self.folder.name}.tmp"
        return output / f".{prefix}.{self.folder.name}.tmp"

    def files_of(self, unit: int) -> tuple[ConversionInput, ...]:
        """Return the files that a unit reads, possibly none."""
        return self.files[_share(len(self.files), unit, self.num_units)]

    def shards_of(self, unit: int) -> range:
        """Return the numbers of the shards that a unit writes, possibly none."""
        part = _share(self.target.num_shards, unit, self.num_units)
        return range(part.start, part.stop)

    def sizes_of(self, unit: int) -> list[tuple[str, int]]:
        """Return names and numbers of samples of the shards that a unit writes."""
        numbers = self.shards_of(unit)
        return list(self.target.shards(self.num_samples)[numbers.start : numbers.stop])

    def to_json(self) -> dict[str, Any]:
        """Return the JSON of the file."""
        target = self.target
        return {
            "plan": self.name,
            "output": str(target.output),
            "shards": target.num_shards,
            "prefix": target.prefix,
            "seed": target.seed,
            "encoding": str(target.encoding),
            "schema": None if target.schema is None else target.schema.to_json(),
            "format": target.shard_format.to_json(),
            "files": [list(file) for file in self.files],
            "units": self.num_units,
            "beside": self.is_beside,
            "delimiter": self.source.csv.delimiter,
            "flatten": list(self.source.columns.flatten),
            "json_columns": list(self.source.columns.as_json),
            "renames": [list(pair) for pair in self.source.columns.renames],
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> ConversionPlan:
        """Return the plan of a file; its folder is the name alone.

        Raises:
            KeyError, TypeError, ValueError, ConfigError: It is something else.
        """
        folder = Path(value["plan"])
        schema = value["schema"]
        target = ConversionTarget(
            Path(value["output"]),
            value["shards"],
            value["prefix"],
            value["seed"],
            Encoding(value["encoding"]),
            None if schema is None else Schema.from_json(schema),
            ShardFormat.from_json(value["format"]),
        )
        files = tuple(ConversionInput(*file) for file in value["files"])
        columns = ColumnOptions(
            tuple(value.get("flatten", ())),
            tuple(value.get("json_columns", ())),
            tuple((old, new) for old, new in value.get("renames", ())),
        )
        source = SourceOptions(csv=CsvOptions(value.get("delimiter")), columns=columns)
        return cls(folder, target, files, int(value["units"]), bool(value["beside"]), source)


_FILE: Final = RecordFile(
    ConversionPlan,
    "a plan",
    "nothing was published; remove its folder, and run the conversion again",
    mode=0o644,
    max_bytes=canonical_json.MAX_BYTES,
    to_json=ConversionPlan.to_json,
    from_json=ConversionPlan.from_json,
)


def _planned(inputs: FileInputs) -> tuple[ConversionInput, ...]:
    planned, start = [], 0
    for file in inputs.files:
        num_bytes, modified_ns = _state_of(file.path)
        num_samples = file.num_samples()
        planned.append(ConversionInput(str(file.path), num_bytes, modified_ns, start, num_samples))
        start += num_samples
    return tuple(planned)


def _state_of(path: Path) -> tuple[int, int]:
    """Return size and time of a file; a shard in a bucket, which never changes, has no time."""
    if (shard := shard_in_bucket(path)) is not None:
        return shard.num_bytes, 0
    with map_errors(path):
        found = path.stat()
    return found.st_size, found.st_mtime_ns


def _share(count: int, unit: int, num_units: int) -> slice:
    if not 0 <= unit < num_units:
        raise ConfigError(f"expected a unit from 0 to {num_units - 1}, got {unit}")
    # Contiguous parts whose sizes differ by at most one.
    return slice(count * unit // num_units, count * (unit + 1) // num_units)
