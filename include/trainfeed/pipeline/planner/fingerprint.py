"""What determines the content of a version, and the causes that make a published one outdated."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any, Final, NamedTuple

from trainfeed.core import canonical_json
from trainfeed.core.intervals import Interval, format_time
from trainfeed.core.reading_rules import NEWEST, ReadingRules
from trainfeed.errors import (
    ConflictError,
    EmptyUnprovenError,
    FormatError,
    NotFoundError,
    SourceReplacedError,
    TrainFeedError,
    WithdrawnError,
)
from trainfeed.files import read_plain
from trainfeed.functions import code_texts, digest_of_texts, document_digests, lookup_digests
from trainfeed.pipeline.code_copies import kept_code, told_changes, value_changes
from trainfeed.pipeline.inputs.schemas import schema_digests
from trainfeed.pipeline.inputs.topics import Awaited
from trainfeed.pipeline.plans import (
    Plan,
    Planned,
    first_few,
    plan_of_version,
    replaced_inputs,
    unit_of_input,
)
from trainfeed.pipeline.reports import JsonObject
from trainfeed.specification import DatasetSpec, fingerprint_fields
from trainfeed.uploads import AppliedUpload, check_uploads
from trainfeed.versions import DatasetFolder, Manifest, Skip
from trainfeed.versions.layout import generation_name
from trainfeed.versions.manifest import FORMAT
from trainfeed.versions.withdraw import withdrawals, withdrawn_alike

# --- Everything about a data set, besides its inputs, that determines the content of a version


@dataclass(frozen=True)
class Recipe:
    """Specification, code, lookups, documents and schemas of a data set, as they are now.

    Attributes:
        spec: The data set.
        code: Digest of the code.
        texts: Name → content of the files of the code, in path order.
        lookups: Name → SHA-256 of the lookup files.
        documents: Name → SHA-256 of the documents.
        schemas: Place → SHA-256 of the reader's schemas of values and keys.
    """

    spec: DatasetSpec
    code: str
    texts: Mapping[str, bytes]
    lookups: Mapping[str, str]
    documents: Mapping[str, str]
    schemas: Mapping[str, str]

    @classmethod
    def of(cls, spec: DatasetSpec) -> Recipe:
        """Read and digest the files of a data set.

        Raises:
            ConfigError: A file is missing, a module imports code from outside its folder, or a
                schema is not valid.
            StorageError: A file cannot be read.
        """
        texts = code_texts(spec)
        code, schemas = digest_of_texts(texts), schema_digests(spec)
        return cls(spec, code, texts, lookup_digests(spec), document_digests(spec), schemas)

    @property
    def code_files(self) -> dict[str, str]:
        """Name → SHA-256 of the files of the code, in path order."""
        return {name: hashlib.sha256(text).hexdigest() for name, text in self.texts.items()}

    def fingerprint_of(
        self,
        interval: Interval,
        inputs: Mapping[str, Planned],
        uploads: Sequence[AppliedUpload],
        rules: ReadingRules = NEWEST,
    ) -> JsonObject:
        """Return everything that determines the content of a version.

        Args:
            interval: The interval.
            inputs: Source string → planned input.
            uploads: The uploads of the interval, in order of arrival.
            rules: The rules by which values are read: the newest for a new version, those of a
                published version to compare with it.
        """
        return {
            "format": FORMAT,
            "dataset": self.spec.name,
            "interval": {"start": format_time(interval.start), "end": format_time(interval.end)},
            "inputs": {source: planned.fingerprint() for source, planned in inputs.items()},
            "spec": fingerprint_fields(self.spec, rules),
            "code": self.code,
            "lookups": dict(self.lookups),
            # Left out where there is none: fingerprints of earlier versions stay the same.
            **({"documents": dict(self.documents)} if self.documents else {}),
            **({"schemas": dict(self.schemas)} if self.schemas else {}),
            **self._uploads_fingerprint(uploads),
            **self._reading_rules(rules),
        }

    def _reading_rules(self, rules: ReadingRules) -> JsonObject:
        """Return the number of the rules; nothing for the first ones, and where none matters."""
        if rules is ReadingRules.GUESSED or not self.spec.follows_reading_rules:
            return {}
        return {"reading_rules": int(rules)}

    def _uploads_fingerprint(self, uploads: Sequence[AppliedUpload]) -> JsonObject:
        """Return the uploads in order of arrival; nothing for a data set without the part."""
        if self.spec.uploads is None:
            return {}
        return {"uploads": [upload.fingerprint() for upload in uploads]}


# --- The uploads of an interval: checked before a plan, so that no file is passed over

_UPLOAD_DIGEST_CHARS = 12
_NOTHING = "no upload of the interval was accepted"


def check_interval_uploads(
    spec: DatasetSpec, folder: DatasetFolder, interval: Interval
) -> str | None:
    """Check the files of an interval that have no receipt yet.

    Returns:
        The remark about files that are not used: refused ones, and unfinished ones; None if there
        are none, or the data set takes no uploads.

    Raises:
        FormatError: A receipt is damaged.
        StorageError: The publication root refused or failed.
    """
    if spec.uploads is None:
        return None
    report = check_uploads(spec, folder, [interval.name])
    lines = [f"{refusal.name}: {refusal.reason}" for refusal in report.refused]
    lines += [f"{name}: it is being written" for name in report.unfinished]
    return f"uploads that are not used: {first_few(lines)}" if lines else None


def awaited_labels(
    spec: DatasetSpec, interval: Interval, uploads: Sequence[AppliedUpload]
) -> Awaited | None:
    """Return what an interval waits for whose inner join would be one with nothing, or None."""
    if spec.uploads is None or spec.uploads.missing_rule is None or uploads:
        return None
    return Awaited.of(spec, interval, "uploads", spec.uploads.missing_rule)


def skip_without_labels(awaited: Awaited | None, now: datetime) -> Skip | None:
    """Return the decision to skip an interval without an upload, or None if the rule is another.

    Args:
        awaited: The uploads that the interval waits for, or None.
        now: Aware UTC time.

    Raises:
        WindowOpenError: The wait has not ended.
    """
    if awaited is None:
        return None
    if not awaited.is_over(now):
        raise awaited.not_yet(f"{_NOTHING}, and its inner join would leave out every sample")
    if awaited.rule.missing != "skip":
        return None
    return awaited.skip(f"{_NOTHING}; {awaited.since}", now)


def require_labels(awaited: Awaited | None) -> dict[str, str]:
    """Refuse an inner join with nothing, unless the specification takes it as empty.

    Returns:
        Why the version is empty, by ``uploads``, equal in every run; nothing if labels are there.

    Raises:
        EmptyUnprovenError: The interval has no upload.
    """
    if awaited is None:
        return {}
    if awaited.rule.missing == "empty":
        return {"uploads": f"missing: {_NOTHING}; {awaited.since}"}
    raise EmptyUnprovenError(
        f"expected at least one accepted upload for {awaited.dataset}/{awaited.interval.name}, got"
        f" none until {format_time(awaited.until)}: an inner join would leave out every sample;"
        f" nothing was read or published; put labels into uploads/{awaited.interval.name} of the"
        f" data set (trainfeed uploads ls {awaited.dataset} shows what is there), choose join:"
        " left, or decide with uploads.missing: empty or skip"
    )


def told_uploads(fingerprint_of: JsonObject, files: Sequence[Mapping[str, object]]) -> JsonObject:
    """Return the values of a fingerprint with the uploads by their names, for a message.

    Args:
        fingerprint_of: The values.
        files: The uploads, as a plan or a manifest has them.
    """
    if "uploads" not in fingerprint_of:
        return fingerprint_of
    named = {str(each["name"]): str(each["sha256"])[:_UPLOAD_DIGEST_CHARS] for each in files}
    return {**fingerprint_of, "uploads": named}


# --- The causes that make a published version outdated: values that differ from those of now

_DIGEST_CHARS: Final = 64
_SHOWN_DIGEST_CHARS: Final = 12
_SHOWN_CHARS: Final = 60
_REASON_CHARS: Final = 500
_PREFIX: Final = "outdated: "
_UNKNOWN: Final = "unknown"


class Cause(NamedTuple):
    """A value of the fingerprint that is not the same any more.

    Attributes:
        place: Where the value stands: ``code.preprocess.py``, ``lookups.airports``, ``spec.seed``;
            ``code`` if the text of the earlier code was not kept; ``unknown`` if nothing kept tells
            which value it is.
        old: The value in the version, as a short text; None if it had none.
        new: The value now, likewise.
    """

    place: str
    old: str | None
    new: str | None

    @property
    def text(self) -> str:
        """The cause as one line."""
        if self.place == _UNKNOWN:
            return "a value of the fingerprint that no kept file shows"
        return f"{self.place}: {self.old or 'none'} → {self.new or 'none'}"


class PublishedVersion(NamedTuple):
    """The published version of an interval.

    Attributes:
        folder: The data set below the publication root.
        interval: Name of the interval.
        manifest: The manifest.
    """

    folder: DatasetFolder
    interval: str
    manifest: Manifest

    @property
    def name(self) -> str:
        """The version, as in ``clicks/2024-03-01/g0001``."""
        generation = generation_name(self.manifest.generation)
        return f"{self.folder.name}/{self.interval}/{generation}"


def causes_of(
    version: PublishedVersion, recipe: Recipe, now: JsonObject, uploads: Sequence[AppliedUpload]
) -> tuple[Cause, ...]:
    """Return what differs between a published version and the values of now, in order of place.

    Args:
        version: The version.
        recipe: The recipe of now.
        now: The values of a fingerprint of now, which differs from that of the version.
        uploads: The uploads of now.

    Raises:
        StorageError: The publication root refused or failed.
    """
    published = _published_values(version)
    if published is None:
        published = _values_of_manifest(version.manifest)
        spec: Any = now["spec"]
        now = {key: now.get(key) for key in published} | {"spec": {"schema": spec["schema"]}}
    if published["code"] != now["code"]:
        kept = kept_code(version.folder, str(published["code"])).texts
        if kept is not None:
            published = {**published, "code": {name: _digest(kept[name]) for name in kept}}
            now = {**now, "code": recipe.code_files}
    then = told_uploads(published, version.manifest.uploads.get("files", []))
    today = told_uploads(_as_json(now), [asdict(upload) for upload in uploads])
    changes = value_changes(then, today, named=True)
    causes = (Cause(each.place, _shown(each.old), _shown(each.new)) for each in changes)
    return tuple(causes) or (Cause(_UNKNOWN, None, None),)


def reason_of(causes: Sequence[Cause], why: str | None) -> str:
    """Return the reason that the next generation records: equal causes give an equal text.

    Args:
        causes: Why the version is outdated.
        why: The reason that a person gave, or None.
    """
    text = f"{_PREFIX}{first_few([cause.text for cause in causes])}"
    return _cut(text if why is None else f"{why} ({text})", _REASON_CHARS)


def is_given_in(why: str, recorded: str) -> bool:
    """Return whether a recorded reason is the one that a person gave, alone or before causes."""
    begin = f"{why} ({_PREFIX}"
    # A long text was cut; what is left of it decides, rather once too often than once too seldom.
    is_cut = len(recorded) == _REASON_CHARS and begin.startswith(recorded[:-1])
    return recorded == why or recorded.startswith(begin) or is_cut


def _published_values(version: PublishedVersion) -> JsonObject | None:
    """Return the values of the version's fingerprint; None if no file has them."""
    folder, interval, current = version
    try:
        path = folder.plan(interval, current.plan)
        data = read_plain(path, follow=True, max_bytes=canonical_json.MAX_BYTES)
        found = canonical_json.loads(data, path=str(path))
        values = found["fingerprint_of"]
        if "file_list" in found:
            plan = plan_of_version(folder, interval, current.plan)
            values = {} if plan is None else plan.fingerprint_values
        is_proved = canonical_json.sha256_of(values) == current.fingerprint
    except (FormatError, NotFoundError, KeyError, TypeError):
        return None
    return values if is_proved else None


def _values_of_manifest(current: Manifest) -> JsonObject:
    return {
        "format": current.format,
        "dataset": current.dataset,
        "interval": current.interval.model_dump(),
        "spec": {"schema": current.fields},
        "code": current.code["digest"],
        "lookups": current.lookups,
    }


def _as_json(values: JsonObject) -> JsonObject:
    """Return values as they are after a way through a file, where tuples become lists."""
    read: JsonObject = canonical_json.loads(canonical_json.dumps(values))
    return read


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _shown(value: object) -> str | None:
    if value is None:
        return None
    if isinstance(value, str) and len(value) == _DIGEST_CHARS:
        return value[:_SHOWN_DIGEST_CHARS]
    text = value if isinstance(value, str) else canonical_json.dumps(value).decode()
    return _cut(text, _SHOWN_CHARS)


def _cut(text: str, limit: int) -> str:
    return text if len(text) <= limit else f"{text[: limit - 1]}…"


# --- A published version that today's build would not make, and the errors about it


class OutdatedVersion(NamedTuple):
    """A published version that a build of now would not make.

    Attributes:
        version: The version.
        causes: The values that differ, in order of their places.
    """

    version: PublishedVersion
    causes: tuple[Cause, ...]


def gone_inputs(current: Manifest, inputs: Mapping[str, Planned]) -> list[str]:
    """Return one line per log file of the published version that is not there any more.

    Partitions of topics are not counted: they go only with their topic, whose identity differs
    then, or with the topic's name in the specification.
    """
    files = {name for name, old in current.inputs.items() if unit_of_input(old) == "bytes"}
    return [f"{source}: it is gone" for source in sorted(files - inputs.keys())]


def replaced_error(version: str, lines: Sequence[str]) -> SourceReplacedError:
    """Return the error for a version whose source was replaced; one line for each input."""
    return SourceReplacedError(
        f"inputs of {version} were replaced: {first_few(lines)}; the published version stays; to"
        " make the next generation from what is there now, run again with --rebuild WHY (Airflow:"
        " parameter 'rebuild')"
    )


def refusal_of(
    version: PublishedVersion,
    recipe: Recipe,
    inputs: Mapping[str, Planned],
    now: JsonObject,
    uploads: Sequence[AppliedUpload],
) -> TrainFeedError:
    """Return the error for a version that differs from now; see ``conflict_error``."""
    if replaced := replaced_inputs(version.manifest, inputs):
        return replaced_error(version.name, replaced)
    return conflict_error(version, recipe, now, uploads)


def conflict_error(
    version: PublishedVersion,
    recipe: Recipe,
    now: JsonObject,
    uploads: Sequence[AppliedUpload],
) -> ConflictError:
    """Return the error for a version of another fingerprint, with the values that differ.

    Args:
        version: The published version.
        recipe: Specification and code of now.
        now: The values of the fingerprint of now.
        uploads: The uploads of now.
    """
    folder, interval, current = version
    plan = plan_of_version(folder, interval, current.plan)
    if plan is not None:
        published = plan.fingerprint_values
    else:
        # Without the plan, the manifest has only these two values to compare. The others are in
        # the fingerprint, which shows that something differs, but not what.
        published = {"code": current.code["digest"], "lookups": current.lookups}
        now = {key: now[key] for key in published}
    published = told_uploads(published, current.uploads.get("files", []))
    now = told_uploads(now, [asdict(upload) for upload in uploads])
    changes, code = told_changes(folder, recipe.texts, published, now)
    return ConflictError(
        f"{version.name} is published from other inputs:"
        f" {changes or 'its plan file is gone or damaged'}; the published version stays; to leave"
        " it as it is, run again with --outdated keep; to make the next generation from what is"
        " there now, with --outdated rebuild, or with --rebuild WHY for a reason of your own"
        f" (Airflow: parameters 'outdated' and 'rebuild'); trainfeed outdated {folder.name} lists"
        f" all such intervals{code}"
    )


# --- Refuses the plan of content that was withdrawn, unless a person gives a reason that is new


def acknowledged(
    folder: DatasetFolder, interval: str, fingerprints: Collection[str], why: str | None
) -> list[str]:
    """Return the digests of the withdrawals that the reason of a build acknowledges.

    A reason for which a withdrawn generation was built was given before the withdrawal: a run that
    is repeated with it acknowledges nothing.

    Args:
        folder: The data set.
        interval: Name of the interval.
        fingerprints: Fingerprints of the plan, by any reading rules.
        why: The reason that a person gave, or None.

    Raises:
        WithdrawnError: A version with one of them was withdrawn, and there is no new reason.
        StorageError: The publication root refused or failed.
    """
    marks = withdrawals(folder, interval)
    reasons = [mark.reason for mark in marks if mark.reason is not None]
    is_spent = why is not None and any(is_given_in(why, reason) for reason in reasons)
    known = [] if why is None or is_spent else sorted(mark.digest for mark in marks)
    alike = [
        mark
        for each in sorted(fingerprints)
        for mark in withdrawn_alike(folder, interval, fingerprint=each, known=known)
    ]
    if not alike:
        return known
    spent = f"the reason {why!r} is that of a version withdrawn since; " if is_spent else ""
    raise WithdrawnError(
        f"a build of {folder.name}/{interval} would make a withdrawn version again:"
        f" {alike[-1].told}; {spent}nothing was read or written;"
        " correct the cause (records, code, lookups) and build, or take the withdrawal back:"
        f" trainfeed restore {alike[-1].name} --why WHY; to publish the same as the next"
        f" generation all the same: trainfeed build {folder.name} --interval {interval} --rebuild"
        " WHY, with a reason that is new (Airflow: parameter 'rebuild')"
    )


def told_acknowledged(folder: DatasetFolder, plan: Plan) -> str | None:
    """Return which withdrawals the reason of a plan acknowledges, for people; None if none.

    Raises:
        StorageError: The publication root refused or failed.
    """
    known = plan.acknowledges or ()
    marks = [mark for mark in withdrawals(folder, plan.interval["name"]) if mark.digest in known]
    if not marks:
        return None
    told = "; ".join(mark.told for mark in marks)
    return f"its reason, {plan.rebuild!r}, acknowledges {len(marks)} withdrawals: {told}"
