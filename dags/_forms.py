"""The fields of forms: those that several DAGs have alike, and those of a data set's runs."""

from __future__ import annotations

from itertools import islice
from typing import Any, Final

from airflow.sdk import Param
from croniter import croniter

from operators.stages import OUTDATED_RULES
from operators.training_starts import CATCH_UP_LIMIT
from trainfeed.specification import DatasetSpec, TrainingWish, fingerprint_fields

INTERVAL_PATTERN: Final = "^[A-Za-z0-9][A-Za-z0-9._-]{0,199}$"
# 3 to 500 characters on one line, and not blank.
REASON: Final[dict[str, Any]] = {
    "minLength": 3,
    "maxLength": 500,
    "pattern": r"^[^\r\n\t]*\S[^\r\n\t]*$",
}
DATASET_PATTERN: Final = "^[a-z][a-z0-9_]{0,62}$"


def dataset_param() -> Param:
    """Return the field for the name of a data set; the task refuses an unknown one."""
    return Param(
        type="string",
        pattern=DATASET_PATTERN,
        title="Data set",
        description="Its name, such as flights.",
    )


def interval_param(where: str = "", *, such_as: str = "2013-01-01") -> Param:
    """Return the field for the name of an interval.

    Args:
        where: Where a person finds the name.
        such_as: An example: in a form for one data set, an interval of that one.
    """
    return Param(
        type="string",
        pattern=INTERVAL_PATTERN,
        title="Interval",
        description=f"Such as {such_as}{where}.",
    )


def generation_param(unset: str) -> Param:
    """Return the field for a generation; ``unset`` says which one it is by default."""
    return Param(
        None,
        type=["null", "string"],
        pattern="^g[0-9]{4,}$",
        title="Generation",
        description=f"Such as g0002; {unset}.",
    )


def why_param(keeper: str) -> Param:
    """Return the field for the reason; ``keeper`` says what keeps it."""
    return Param(
        type="string",
        **REASON,
        title="Why",
        description=f"The reason, which {keeper} keeps: one line of 3 to 500 characters.",
    )


def dry_run_param(description: str, *, is_on: bool = False) -> Param:
    """Return the field that makes a run change nothing; ``is_on`` for what cannot be undone."""
    return Param(is_on, type="boolean", title="Dry run", description=description)


# --- The parameters of runs, for the trigger form, REST and backfills

_OPTIONAL_REASON: Final[dict[str, Any]] = {"type": ["null", "string"], **REASON}
_LAST_ENDED: Final = (
    "Without it a triggered run builds the last interval that had ended at its logical date, and"
    " fails if the schedule has no such interval."
)
_EXAMPLES: Final = 3
# A day, the name of an interval, or a time with its distance to UTC.
_ZONED_WINDOW: Final = (
    r"^[0-9]{4}-[0-9]{2}-[0-9]{2}"
    r"(T[0-9]{2}([0-9]{2})?|"
    r"[T ][0-9]{2}:[0-9]{2}(:[0-9]{2}(\.[0-9]+)?)?(Z|[+-][0-9]{2}:?[0-9]{2}))?$"
)
# The text in the list for "no window start".
_BY_DATE: Final = "none: the date decides"
# Most intervals in the list, because the message of a refused run has all of them.
_LISTED: Final = 100


def build_params(spec: DatasetSpec) -> dict[str, Param]:
    """Return the parameters of ``build.<data set>``."""
    params = {
        "window_start": window_param(spec, unset=_LAST_ENDED),
        "dry_run": Param(
            False,
            type="boolean",
            title="Dry run",
            description="Only show what would be read, built and published, with sizes: in the"
            " tab Data set of the run, and in the log of the task plan. Nothing is written, the"
            " other tasks are skipped, and no training starts.",
        ),
        "rebuild": Param(
            None,
            **_OPTIONAL_REASON,
            title="Rebuild: why",
            description="Build a new generation even if one is published. The reason is"
            " recorded, for example: label was off by one. Another run with the same reason"
            f" builds nothing, so clearing a task is safe.{_of_uploads(spec)}",
        ),
        "outdated": Param(
            "fail",
            type="string",
            enum=[*OUTDATED_RULES],
            title="Outdated",
            description="What happens if the interval is published, and today's code,"
            " specification, lookups or uploads would build it otherwise. 'fail': the run fails and"
            " names what differs. 'keep': the version stays, nothing is built, and the page of the"
            " run says so. 'rebuild': the next generation is built, and the causes are recorded as"
            " its reason; a version that is not outdated stays. For backfills: 'rebuild' brings a"
            " range forward, and can be repeated. A source that was replaced always fails.",
        ),
        "replay": Param(
            False,
            type="boolean",
            title="Replay quarantine",
            description="Build the next generation from the plan and the landed records of the last"
            " build, with the code of today, if that build quarantined records. No broker is read."
            " An interval without quarantined records is skipped; one that today's code would build"
            " as it is published builds nothing, so a second replay is safe. 'Rebuild: why' is then"
            " the recorded reason; without it the reason counts the quarantined records. For"
            " backfills, too.",
        ),
        "allow_gap": Param(
            None,
            **_OPTIONAL_REASON,
            title="Allow a gap: why",
            description="Build even though the source no longer has all records of the interval."
            " The reason and the missing positions are recorded, for example: broker lost a disk on"
            " 3 May.",
        ),
    }
    if spec.preprocess.parameters:
        params |= _function_params(spec)
    if spec.train is None:
        return params
    return {**params, "training": _training_param(spec), "catch_up": _catch_up_param(spec)}


def _function_params(spec: DatasetSpec) -> dict[str, Param]:
    """Return the fields for other values of the function's parameters."""
    given = fingerprint_fields(spec)["preprocess"]["parameters"]
    values = "; ".join(f"{name}={value!r}" for name, value in given.items())
    return {
        "parameters": Param(
            None,
            type=["null", "string"],
            minLength=3,
            maxLength=2000,
            title="Parameters",
            description=f"Other values for this interval, one NAME=VALUE a line; dataset.yaml has"
            f" {values}. They are recorded with your name, and later builds of the interval use"
            " them, too, until trainfeed parameters --end or bring-forward ends them. A published"
            " interval also needs 'Rebuild: why'.",
        ),
        "parameters_why": Param(
            None,
            **_OPTIONAL_REASON,
            title="Parameters: why",
            description="The reason, kept with the values; by default that of the rebuild.",
        ),
    }


def _of_uploads(spec: DatasetSpec) -> str:
    if spec.uploads is None:
        return ""
    return (
        " A rebuild takes uploads that came after the published version; the log of"
        f" uploads.{spec.name} names their intervals."
    )


def _training_param(spec: DatasetSpec) -> Param:
    return Param(
        "each",
        type="string",
        enum=[wish.value for wish in TrainingWish],
        title="Training",
        description=f"Whether train.{spec.name} starts for the interval. 'each': yes. 'last': only"
        " if no run of a later interval is active, so a backfill of many days trains once, on its"
        " newest day. 'none': no; the interval counts as declined, and no event is sent.",
    )


def _catch_up_param(spec: DatasetSpec) -> Param:
    return Param(
        "missed",
        type="string",
        enum=["missed", "all", "none"],
        title="Catch up trainings",
        description="Which trainings start besides the one of this interval, at most"
        f" {CATCH_UP_LIMIT} per run. 'missed': those of published intervals that no training has"
        f" seen, for instance because train.{spec.name} was paused. 'all': also those of intervals"
        " that are older than the training in dataset.yaml. 'none': no other.",
    )


def window_param(spec: DatasetSpec, *, unset: str) -> Param:
    """Return the parameter that selects the interval of a triggered run.

    The form accepts only ticks as far as possible: for a daily schedule with an end it shows a
    list of intervals, and for several ticks a day it checks the time of day. The first task of a
    run checks the rest: whether a day is a tick, and whether its interval has ended.

    Args:
        spec: The data set.
        unset: Text about a triggered run without the parameter.
    """
    schedule = spec.schedule_model()
    if schedule.zone is not None:
        return _zoned_window_param(spec, unset=unset)
    ticks = list(islice(schedule.intervals(), _EXAMPLES if schedule.last is None else _LISTED + 1))
    names = [interval.name for interval in ticks]
    rule: dict[str, Any] = {"format": "date"}
    examples = names[:_EXAMPLES]
    if len(names[0]) != len("2013-01-01"):
        rule = {"format": "date-time", "pattern": _time_pattern(schedule.cron)}
        examples = [f"{interval.start:%Y-%m-%dT%H:%M:%SZ}" for interval in ticks[:_EXAMPLES]]
    elif schedule.last is not None and len(names) <= _LISTED:
        # Without ``format``, with which the form would ask for a date and show no list.
        rule = {"enum": [None, *names], "values_display": {"null": _BY_DATE}}
    last = ""
    if schedule.last is not None:
        last = f" to {schedule.interval_starting(schedule.last).name}"
    return Param(
        None,
        type=["null", "string"],
        **rule,
        examples=examples,
        title="Window start",
        description=f"Start of the interval, UTC: a tick of the schedule {spec.schedule}, from"
        f" {names[0]}{last}, such as {examples[-1]}. Leave it empty in a backfill, where the dates"
        f" of the backfill decide. {unset}",
    )


def _zoned_window_param(spec: DatasetSpec, *, unset: str) -> Param:
    """Return the parameter for a schedule in a zone: names, and days of the zone.

    A list shows what every name is in the zone. ``format: date`` would refuse names.
    """
    schedule = spec.schedule_model()
    ticks = list(islice(schedule.intervals(), _EXAMPLES if schedule.last is None else _LISTED + 1))
    rule: dict[str, Any] = {"pattern": _ZONED_WINDOW}
    if schedule.last is not None and len(ticks) <= _LISTED:
        shown = {each.name: schedule.text_of(each) for each in ticks}
        rule = {"enum": [None, *shown], "values_display": {"null": _BY_DATE, **shown}}
    last = ""
    if schedule.last is not None:
        last = f" to {schedule.text_of(schedule.interval_starting(schedule.last))}"
    return Param(
        None,
        type=["null", "string"],
        **rule,
        examples=[each.name for each in ticks[:_EXAMPLES]],
        title="Window start",
        description=f"The interval: its name, which is its start in UTC, a time with its distance"
        f" to UTC, or a day of {schedule.zone} on which one interval starts. A tick of the schedule"
        f" {schedule.cron} in {schedule.zone}, from {schedule.text_of(ticks[0])}{last}. Leave it"
        f" empty in a backfill, where the dates of the backfill decide. {unset}",
    )


def _time_pattern(cron: str) -> str:
    """Return a regular expression for times of day, UTC, at which ``cron`` can have a tick."""
    minutes, hours, *_ = croniter.expand(cron)[0]
    return rf"T{_any_of(hours)}:{_any_of(minutes)}(:00(\.0+)?)?(Z|[+-]00:?00)$"


def _any_of(numbers: list[Any]) -> str:
    return r"\d\d" if numbers == ["*"] else f"({'|'.join(f'{n:02d}' for n in numbers)})"
