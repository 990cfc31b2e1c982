"""Training and prediction must make samples alike: compares today's code with that of the data.

A model names the versions it was trained on, and a version names its code, lookups and schema.
Where one of them differs from today's, samples of today may mean something else than those that the
model has learned from, and predictions would be wrong without any other sign.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from trainfeed.dataset import DatasetFolder, Manifest, Version
from trainfeed.dataset.layout import parse_generation
from trainfeed.errors import NotFoundError, SkewError
from trainfeed.models import Model, ModelData
from trainfeed.pipeline.plans import plan_of_version, told_changes
from trainfeed.reading_rules import NEWEST, ReadingRules
from trainfeed.specification import DatasetSpec, fingerprint_fields
from trainfeed.usercode import code_texts, digest_of_texts, lookup_digests

__all__ = ["Preprocessing", "Skew", "find_skew", "preprocessing_of", "preprocessing_today"]

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
