"""A model with the preprocessing of its data set: records in, predictions out, in order."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final, Self

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from trainfeed.core.reading_rules import NEWEST, ReadingRules
from trainfeed.errors import (
    CodeChangedError,
    ConfigError,
    JobRejectedError,
    MemoryLimitError,
    NotFoundError,
    PredictionError,
    PreprocessError,
    SkewError,
)
from trainfeed.functions import (
    code_texts,
    digest_of_texts,
    load_training_function,
    lookup_digests,
    training_texts,
)
from trainfeed.pipeline.code_copies import told_changes
from trainfeed.pipeline.functions.account import SampleLimits
from trainfeed.pipeline.functions.modes import mode_of
from trainfeed.pipeline.functions.user_function import UserFunction
from trainfeed.pipeline.plans import plan_of_version
from trainfeed.prediction.opened_model import ModelFacts, ModelPlace, predicting_model
from trainfeed.prediction.records import Outcome, OutcomeKind, RawRecord, landed
from trainfeed.preprocessing import Reject
from trainfeed.preprocessing.source_record import cut_message
from trainfeed.samples import Schema, TypedCodec, frame_records
from trainfeed.specification import DatasetSpec, check_name, fingerprint_fields, load_spec
from trainfeed.training.models import Model, ModelData, ModelsFolder, model_version
from trainfeed.versions import DatasetFolder, Manifest, Version
from trainfeed.versions.layout import parse_generation

# --- Calls the function that predicts, and checks everything that it returns

Arrays = Mapping[str, NDArray[Any]]

# Booleans, whole numbers, floats, texts: what JSON can hold without loss.
_KINDS: Final = "biufU"
_EXPECTED: Final = "return name → array with one row for each sample"


class UserPredictor:
    """The function of ``train.model.predict`` with an opened model.

    Args:
        spec: The data set.
        code: Its code, as ``training_texts`` has read it.
        entry: ``module:name``; called once with the model's folder, it returns the function that
            maps columns to predictions.
        folder: The model's folder.
        labels: Fields that the function never gets.

    Raises:
        PredictionError: There is no such function, or it raised, or it returned no function.
    """

    def __init__(
        self,
        spec: DatasetSpec,
        code: Mapping[str, bytes],
        entry: str,
        folder: Path,
        labels: tuple[str, ...],
    ) -> None:
        self._name = f"{entry} of data set {spec.name!r}"
        self._folder = spec.folder
        self._labels = frozenset(labels)
        try:
            predict = load_training_function(spec.folder, spec.name, entry, code)(folder)
        except JobRejectedError as error:
            raise PredictionError(str(error)) from error
        except BaseException as error:
            raise self._raised(f"opening {folder}", error) from error
        if not callable(predict):
            raise PredictionError(
                f"{self._name} returned a {type(predict).__name__} for {folder}; no prediction was"
                " made; return a function of name → array"
            )
        self._predict: Callable[[Arrays], Any] = predict

    def predict(self, columns: Arrays, num_samples: int) -> list[Outcome]:
        """Return the prediction of every sample.

        Args:
            columns: Field → values of all samples; labels are taken out here.
            num_samples: Number of samples, at least one.

        Raises:
            PredictionError: The function raised, or returned no predictions.
        """
        given = {name: values for name, values in columns.items() if name not in self._labels}
        try:
            found = self._predict(given)
        except BaseException as error:
            raise self._raised(f"{num_samples} samples", error) from error
        arrays = self._checked(found, num_samples)
        rows = zip(*(array.tolist() for array in arrays.values()), strict=True)
        outcomes = [
            Outcome(OutcomeKind.PREDICTED, (dict(zip(arrays, row, strict=True)),)) for row in rows
        ]
        for name, array in arrays.items():
            for row in _rows_not_finite(array):
                message = f"{name}: expected finite numbers, got {array[row].tolist()}"
                outcomes[row] = Outcome(
                    OutcomeKind.FAILED, reason="not_finite", message=cut_message(message)
                )
        return outcomes

    def _checked(self, found: Any, num_samples: int) -> dict[str, NDArray[Any]]:
        if not isinstance(found, Mapping) or not found:
            raise self._wrong(f"returned {_shown(found)}")
        arrays = {str(name): np.asarray(values) for name, values in found.items()}
        for name, array in arrays.items():
            if array.dtype.kind not in _KINDS:
                raise self._wrong(f"returned {name!r} with dtype {array.dtype}")
            if array.shape[:1] != (num_samples,):
                raise self._wrong(
                    f"returned {name!r} of shape {array.shape} for {num_samples} samples"
                )
        return arrays

    def _wrong(self, what: str) -> PredictionError:
        return PredictionError(
            f"{self._name} {what}; no prediction was made; {_EXPECTED}, of booleans, numbers or"
            " texts"
        )

    def _raised(self, where: str, error: BaseException) -> PredictionError:
        frames = traceback.extract_tb(error.__traceback__)
        own = [frame for frame in frames if Path(frame.filename).parent == self._folder]
        line = f" ({Path(own[-1].filename).name}:{own[-1].lineno})" if own else ""
        text = cut_message(f"{type(error).__name__}: {error}")
        return PredictionError(
            f"{self._name} raised {text}{line} for {where}; no prediction was made; correct the"
            " function"
        )


def _rows_not_finite(array: NDArray[Any]) -> list[int]:
    if array.dtype.kind != "f":
        return []
    finite = np.isfinite(array).reshape(len(array), -1).all(axis=1)
    return [int(row) for row in np.flatnonzero(~finite)]


def _shown(value: Any) -> str:
    return "no column" if isinstance(value, Mapping) else f"a {type(value).__name__}"


# --- Training and prediction must make samples alike: compares today's code with that of the data

_FUNCTION = "function"


@dataclass(frozen=True)
class Preprocessing:
    """Everything that turns a record into a sample.

    Attributes:
        code: SHA-256 over the Python files of the data set that preprocessing can import.
        lookups: Name of a lookup → SHA-256 of its file.
        schema: The schema as in manifests.
        function: ``preprocess.function`` and ``preprocess.input``; None where that is not known.
        texts: The files of the code; empty for the code of a version.
        rules: The rules by which lookups, and times of records, are read.
    """

    code: str
    lookups: Mapping[str, str]
    schema: list[dict[str, Any]]
    function: Mapping[str, str] | None
    texts: Mapping[str, bytes] = field(default_factory=dict)
    rules: ReadingRules = NEWEST

    def differences(self, other: Preprocessing) -> list[str]:
        """Return the names of the parts that differ; an unknown part does not count."""
        parts = ("code", "lookups", "schema", _FUNCTION, "rules")
        pairs = ((name, getattr(self, name), getattr(other, name)) for name in parts)
        return [name for name, a, b in pairs if a != b and None not in (a, b)]


@dataclass(frozen=True)
class Skew:
    """The difference between the preprocessing of a model's data and that of a prediction.

    Attributes:
        differs: Names of the parts that differ: code, lookups, schema, function, rules (of reading
            CSV lookups); and ``unknown`` if no version of the model's data is left to compare
            with.
        message: The digests or values of both sides, for people.
        gone: Versions of the model's data that were removed, so that nothing is known of them.
    """

    differs: tuple[str, ...]
    message: str
    gone: tuple[str, ...]

    def refuse(self, model: str) -> None:
        """Refuse a difference.

        Raises:
            SkewError: There is one.
        """
        if self.differs:
            raise SkewError(
                f"{model}: {self.message}; no prediction was made, because it would be made from"
                " other samples than the model has learned from; check out the code of the model's"
                " data, or train and promote a model on data of today's code, or predict with"
                " --accept-other-code, which every prediction then says"
            )


def preprocessing_today(root: Path, spec: DatasetSpec, model: Model) -> Preprocessing:
    """Return the preprocessing of a data set as it is now, with the reading rules of a model.

    Raises:
        FormatError: A manifest is damaged.
        ConfigError: A lookup is missing, or a module imports code from outside its folder.
        StorageError: A file cannot be read.
    """
    texts = code_texts(spec)
    function = dict(fingerprint_fields(spec)["preprocess"])
    code = digest_of_texts(texts)
    lookups, rules = lookup_digests(spec), _rules_of(root, spec, model)
    return Preprocessing(code, lookups, spec.schema_fields(), function, texts, rules)


def _rules_of(root: Path, spec: DatasetSpec, model: Model) -> ReadingRules:
    """Return the newest rules by which a version of the model's data was read."""
    folder = DatasetFolder(root, spec.name)
    read = [then.rules for _, then in _trained_on(folder, model.manifest.data, [])]
    return max(read, default=NEWEST)


def preprocessing_of(folder: DatasetFolder, manifest: Manifest, interval: str) -> Preprocessing:
    """Return the preprocessing with which a version was built.

    Args:
        folder: The data set below the publication root.
        manifest: Manifest of the version.
        interval: Name of the interval.
    """
    code = str(manifest.code["digest"])
    plan = plan_of_version(folder, interval, manifest.plan)
    # Plans may be removed. Then the name of the function is not known, its code is.
    function = None if plan is None else plan.fingerprint_of["spec"].get("preprocess")
    lookups, rules = manifest.lookups, manifest.rules
    return Preprocessing(code, lookups, manifest.fields, function, rules=rules)


def find_skew(root: Path, spec: DatasetSpec, model: Model, used: Preprocessing) -> Skew:
    """Compare the preprocessing of a prediction with that of every version of a model's data.

    Args:
        root: The publication root.
        spec: The data set.
        model: The model.
        used: The preprocessing of the prediction.

    Raises:
        FormatError: A manifest is damaged.
        StorageError: The publication root refused or failed.
    """
    folder = DatasetFolder(root, spec.name)
    gone: list[str] = []
    for data, then in _trained_on(folder, model.manifest.data, gone):
        # Without a lookup that is CSV, all rules make the same samples of the same records.
        known = then if spec.csv_lookups else replace(then, rules=used.rules)
        if differs := known.differences(used):
            place = f"{data.interval}/{data.generation}"
            return Skew(tuple(differs), _told(folder, spec, place, then, used), tuple(gone))
    if len(gone) == len(model.manifest.data):
        message = f"all versions of its data were removed ({', '.join(gone)}): nothing is left to"
        return Skew(("unknown",), f"{message} compare today's preprocessing with", tuple(gone))
    return Skew((), "", tuple(gone))


def _trained_on(
    folder: DatasetFolder, data: list[ModelData], gone: list[str]
) -> Iterator[tuple[ModelData, Preprocessing]]:
    for each in data:
        number = parse_generation(each.generation)
        try:
            version = Version.open(folder.version(each.interval, number))
        except NotFoundError:
            gone.append(f"{each.interval}/{each.generation}")
            continue
        yield each, preprocessing_of(folder, version.manifest, each.interval)


def _told(
    folder: DatasetFolder, spec: DatasetSpec, place: str, then: Preprocessing, now: Preprocessing
) -> str:
    pairs = [(name, getattr(then, name), getattr(now, name)) for name in then.differences(now)]
    parts = [f"{name}: expected {_short(a)}, got {_short(b)}" for name, a, b in pairs]
    told = f"preprocessing differs from that of {spec.name}/{place}: {'; '.join(parts)}"
    if then.code == now.code:
        return told
    texts = now.texts or code_texts(spec)
    _, code = told_changes(folder, texts, {"code": then.code}, {"code": now.code})
    return f"{told}{code}\n"


def _short(value: object) -> str:
    return str(int(value)) if isinstance(value, ReadingRules) else _text(value)


def _text(value: object) -> str:
    return value if isinstance(value, str) else repr(value)


# --- Raw records → samples, by the preprocessing function of the data set in its own mode

# Stands where a build has the topic or the file: messages name it and the number of the record.
_SOURCE: Final = "records"
_BLOCKS: Final = 16

Complete = Callable[[bytes], bytes]


@dataclass(frozen=True)
class MadeSamples:
    """The samples of some records.

    Attributes:
        columns: Field → values, as ``TypedCodec.decode_columns`` gives them.
        rows: Number of the record of every sample, ascending, shape (n,).
        turned: Number of a record → its outcome, for records without a sample.
    """

    columns: dict[str, NDArray[Any]]
    rows: NDArray[np.int64]
    turned: dict[int, Outcome]


class SampleMaker:
    """Applies the preprocessing function of a data set to records.

    Args:
        spec: The data set.
        today: Its code, lookups and reading rules.
        complete: Makes a value without labels one that the function takes; None changes nothing.

    Raises:
        ConfigError: The function or a lookup cannot be loaded.
        CodeChangedError: A lookup file changed in the meantime.
    """

    def __init__(
        self,
        spec: DatasetSpec,
        today: Preprocessing,
        complete: Complete | None,
    ) -> None:
        self._spec = spec
        self._complete = complete
        self._function = UserFunction(
            spec,
            today.texts,
            today.lookups,
            kept="no prediction was made",
            again="predict again",
            rules=today.rules,
        )
        memory_bytes = spec.resources.task_memory_bytes
        limits = SampleLimits(memory_bytes, memory_bytes, memory_bytes // _BLOCKS)
        # Labels of uploads are what a prediction is to find out.
        fields = spec.function_fields()
        self._account = _Account()
        self._mode = mode_of(
            spec,
            fields,
            self._function,
            self._account,
            told=self._account,
            limits=limits,
            rules=today.rules,
        )
        self._codec = TypedCodec(Schema.from_json(fields))

    def make(self, records: Sequence[RawRecord]) -> MadeSamples:
        """Return the samples of records; a mistake of the function concerns its record alone.

        Raises:
            FormatError: A sample cannot be decoded.
        """
        turned: dict[int, Outcome] = {}
        given = [self._completed(index, record, turned) for index, record in enumerate(records)]
        batch = landed(given)
        if turned:
            left = [number for number in range(len(given)) if number not in turned]
            batch = batch.take(pa.array(left, pa.int64()))
        pairs = self._called(batch, turned)
        rows = np.array([row for row, _ in pairs], dtype=np.int64)
        framing = frame_records([record for _, record in pairs])
        return MadeSamples(self._codec.decode_columns(framing, len(pairs)), rows, turned)

    def _completed(self, index: int, record: RawRecord, turned: dict[int, Outcome]) -> RawRecord:
        if self._complete is None or record.value is None:
            return record
        try:
            value = _require_bytes(self._complete(record.value))
        except Reject as reject:
            turned[index] = _rejected(reject)
            return record
        except Exception as error:  # noqa: BLE001 - the code of a user, which may raise anything
            turned[index] = _failed("complete_failed", f"{type(error).__name__}: {error}")
            return record
        return replace(record, value=value)

    def _called(self, batch: pa.RecordBatch, turned: dict[int, Outcome]) -> list[tuple[int, bytes]]:
        """Return record number and encoded sample, in the order of records and ordinals."""
        try:
            pairs = list(self._pairs(batch))
        except (MemoryLimitError, PreprocessError) as error:
            # After a mistake, the records of the batch are called again, one by one.
            self._account.take()
            if batch.num_rows == 1:
                number = batch.column("offset")[0].as_py()
                turned[number] = _failed("function_failed", str(error))
                return []
            single = (batch.slice(row, 1) for row in range(batch.num_rows))
            return [pair for each in single for pair in self._called(each, turned)]
        turned.update(self._account.take())
        return pairs

    def _pairs(self, batch: pa.RecordBatch) -> Iterator[tuple[int, bytes]]:
        start = 0
        while start < batch.num_rows:
            # ``rows_at_once`` changes with every batch that the function has processed.
            piece = batch.slice(start, self._mode.rows_at_once)
            for block in self._mode.blocks(piece, _SOURCE):
                yield from zip(block.offsets.tolist(), block.records.to_pylist(), strict=True)
            start += piece.num_rows


class _Account:
    """The records that the function turned down, by their numbers."""

    def __init__(self) -> None:
        self._turned: dict[int, Outcome] = {}

    def take(self) -> dict[int, Outcome]:
        """Return the records since the last call."""
        turned, self._turned = self._turned, {}
        return turned

    def filter(self, source: str, reason: str, offsets: list[int], num_bytes: int) -> None:  # noqa: ARG002 - a protocol
        """Take filtered records."""
        for offset in offsets:
            self._turned[offset] = Outcome(OutcomeKind.FILTERED, reason=reason)

    def reject(
        self,
        source: str,  # noqa: ARG002 - a protocol
        offset: int,
        value: bytes | None,  # noqa: ARG002
        reject: Reject,
        num_bytes: int | None = None,  # noqa: ARG002
    ) -> None:
        """Take a broken record."""
        self._turned[offset] = _rejected(reject)

    def record(self, offset: int) -> None:
        """Take the number of the record that comes next; the time limit is that of all records."""


def _require_bytes(value: Any) -> bytes:
    if not isinstance(value, bytes):
        raise TypeError(f"train.model.complete: expected bytes, got {type(value).__name__}")
    return value


def _rejected(reject: Reject) -> Outcome:
    return Outcome(OutcomeKind.REJECTED, reason=reject.reason, message=reject.message)


def _failed(reason: str, message: str) -> Outcome:
    return Outcome(OutcomeKind.FAILED, reason=reason, message=cut_message(message))


# --- A model with the preprocessing of its data set: records in, predictions out, in their order

_PREDICTED: Final = OutcomeKind.PREDICTED


class Predictor:
    """A model that predicts, and the preprocessing that makes its samples.

    Runs the code of users in this process; ``ModelWorker`` has it in a process of its own. One
    process opens one model: the modules of the data set are imported once.

    Args:
        facts: Description of the model.
        maker: Makes samples of records; None for a predictor that gets samples only.
        predictor: The function that predicts.
    """

    def __init__(
        self, facts: ModelFacts, maker: SampleMaker | None, predictor: UserPredictor
    ) -> None:
        self.facts = facts
        self._maker = maker
        self._predictor = predictor

    @classmethod
    def open(cls, place: ModelPlace) -> Self:
        """Open a model for raw records.

        Raises:
            NotFoundError: There is no such model or data set.
            ChecksumError: A file of the model differs from its manifest.
            SkewError: Today's preprocessing is not that of the model's data.
            ConfigError: The data set has no ``train.model.predict``, or cannot be loaded.
            CodeChangedError: A file of the data set changed while it was opened.
            PredictionError: The model cannot be opened by its function.
            FormatError: A manifest is damaged.
            StorageError: The publication root refused or failed.
        """
        model, spec = _opened(place)
        today = preprocessing_today(place.root, spec, model)
        code = training_texts(spec.folder)
        _require_alike(model, today.texts, code)
        facts, predictor = _loaded(place, spec, model, today, code)
        complete = predicting_model(spec)[0].complete
        function = complete and load_training_function(spec.folder, spec.name, complete, code)
        maker = SampleMaker(spec, today, function or None)
        return cls(facts, maker, predictor)

    @classmethod
    def open_for_samples(cls, place: ModelPlace, manifest: Manifest, interval: str) -> Self:
        """Open a model for the samples of a published version, which its own code has made.

        Args:
            place: The model.
            manifest: Manifest of the version.
            interval: Name of the version's interval.

        Raises:
            ConfigError: The version is of another data set than the model; and as for ``open``,
                where the version's preprocessing takes the place of today's.
        """
        model, spec = _opened(place)
        if manifest.dataset != spec.name:
            raise ConfigError(
                f"expected a version of data set {spec.name!r}, on which {model.name} was trained,"
                f" got one of {manifest.dataset!r}; no prediction was made"
            )
        used = preprocessing_of(DatasetFolder(place.root, spec.name), manifest, interval)
        facts, predictor = _loaded(place, spec, model, used, training_texts(spec.folder))
        return cls(facts, None, predictor)

    def predict(self, records: Sequence[RawRecord]) -> list[Outcome]:
        """Return the outcome of every record, in their order.

        Raises:
            PredictionError: The function that predicts raised, or returned no predictions.
        """
        if self._maker is None:
            raise PredictionError(
                "expected samples, got records: open the model with Predictor.open"
            )
        made = self._maker.make(records)
        of_samples = self.predict_samples(made.columns, len(made.rows))
        # Rows ascend, so the samples of record i are at first[i] to first[i + 1].
        first = np.searchsorted(made.rows, np.arange(len(records) + 1)).tolist()
        return [
            made.turned[number]
            if number in made.turned
            else _joined(of_samples[first[number] : first[number + 1]])
            for number in range(len(records))
        ]

    def predict_samples(self, columns: Arrays, num_samples: int) -> list[Outcome]:
        """Return the prediction of every sample; labels among the columns are not passed on.

        Args:
            columns: Field → array of shape ``(num_samples, *S)``.
            num_samples: Number of samples.

        Raises:
            PredictionError: The function that predicts raised, or returned no predictions.
        """
        return self._predictor.predict(columns, num_samples) if num_samples else []


def _opened(place: ModelPlace) -> tuple[Model, DatasetSpec]:
    model = Model.open(ModelsFolder(place.root).known(place.model), place.number)
    model.verify()
    return model, load_spec(place.datasets / check_name(model.manifest.job.dataset))


def _loaded(
    place: ModelPlace,
    spec: DatasetSpec,
    model: Model,
    used: Preprocessing,
    code: Mapping[str, bytes],
) -> tuple[ModelFacts, UserPredictor]:
    chosen, entry = predicting_model(spec)
    skew = find_skew(place.root, spec, model, used)
    if not place.accepts_other_code:
        skew.refuse(model.name)
    facts = ModelFacts(
        model=model.manifest.model,
        version=model_version(model.manifest.version),
        manifest_sha256=model.manifest_sha256,
        dataset=spec.name,
        data=tuple(f"{each.interval}/{each.generation}" for each in model.manifest.data),
        fingerprints=tuple(each.fingerprint for each in model.manifest.data),
        code=used.code,
        lookups=dict(used.lookups),
        training_code=model.manifest.job.code,
        predicting_code=digest_of_texts(code),
        other_code=skew.differs,
        unproven=skew.gone,
    )
    return facts, UserPredictor(spec, code, entry, model.path, chosen.labels)


def _require_alike(model: Model, code: Mapping[str, bytes], whole: Mapping[str, bytes]) -> None:
    """Refuse a preprocessing and a predicting function of two states of the folder."""
    changed = sorted(name for name, text in code.items() if whole.get(name) != text)
    if changed:
        raise CodeChangedError(
            f"{', '.join(changed)} of data set {model.manifest.job.dataset!r} changed while"
            f" {model.name} was opened; no prediction was made; predict again"
        )


def _joined(samples: Sequence[Outcome]) -> Outcome:
    """Return the outcome of a record from those of its samples: the first failure counts."""
    for sample in samples:
        if sample.kind is not _PREDICTED:
            return sample
    return Outcome(_PREDICTED, tuple(each for sample in samples for each in sample.predictions))
