"""Files → shards of record files, shuffled globally: the four steps of the DAG ``convert``.

The operators read and write only below the folders of the connection ``convert_default``. Its extra
has ``inputs`` and ``outputs``, lists of absolute paths, and ``work``, a folder for files between
the tasks.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from airflow.sdk import BaseOperator, XComArg

from operators.connections import conversion_roots
from operators.outcome import airflow_outcome, tell_result
from operators.runs import require_known, run_identity

if TYPE_CHECKING:
    from airflow.sdk import Context

    from trainfeed.pipeline import JsonObject


_PLAN_KEY: Final = "plan"
_PARAMETERS: Final = (
    *("input", "output", "shards", "prefix", "seed", "format", "codec"),
    *("delimiter", "flatten", "json_columns", "rename"),
)


class PlanConversionOperator(BaseOperator):
    """Fix the conversion of a run: the parameters of the form, and the present files.

    Returns:
        The numbers of the units, for the mapped steps to map over. The name of the plan is the
        XCom ``plan``.
    """

    @property
    def plan(self) -> XComArg:
        """The XCom with the name of the plan: argument of all later steps."""
        return XComArg(self, _PLAN_KEY)

    def execute(self, context: Context) -> list[int]:
        """Plan the conversion; a retry finds the plan of the first attempt."""
        from trainfeed.conversion import (
            ColumnOptions,
            ConversionRequest,
            FileFormat,
            plan_conversion,
            renames_of,
        )

        params = context["params"]
        with airflow_outcome(context):
            require_known(params, *_PARAMETERS)
            request = ConversionRequest(
                input=params["input"],
                output=params["output"],
                shards=params["shards"],
                prefix=params["prefix"],
                seed=params["seed"],
                file_format=FileFormat(params["format"]),
                codec=params["codec"],
                run=run_identity(context),
                delimiter=params.get("delimiter") or None,
                columns=ColumnOptions(
                    _names(params.get("flatten")),
                    _names(params.get("json_columns")),
                    renames_of(_names(params.get("rename"))),
                ),
            )
            report = plan_conversion(request, conversion_roots())
        self.log.info("planned %s", report)
        context["ti"].xcom_push(key=_PLAN_KEY, value=report["plan"])
        return list(range(report["units"]))


def _names(listed: str | None) -> tuple[str, ...]:
    return tuple(name.strip() for name in (listed or "").split(",") if name.strip())


class _StepOperator(BaseOperator):
    """A step after the plan; the task can run again safely.

    Args:
        plan: Name of the plan.
    """

    template_fields: Sequence[str] = ("plan",)

    def __init__(self, *, plan: object, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.plan = plan


class _UnitOperator(_StepOperator):
    """One unit of a mapped step.

    Args:
        unit: Number of the unit, from 0.
    """

    def __init__(self, *, unit: int, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.unit = unit


class ScatterFilesOperator(_UnitOperator):
    """Read the files of a unit, and write their samples to the work folder."""

    def execute(self, context: Context) -> JsonObject:
        """Read the files and return the report: small JSON."""
        from trainfeed.conversion import scatter_files

        with airflow_outcome(context):
            return scatter_files(conversion_roots(), str(self.plan), self.unit)


class GatherShardsOperator(_UnitOperator):
    """Write the shards of a unit into the staging folder of the run."""

    def execute(self, context: Context) -> JsonObject:
        """Write the shards and return the report: small JSON."""
        from trainfeed.conversion import gather_shards

        with airflow_outcome(context):
            return gather_shards(conversion_roots(), str(self.plan), self.unit)


class PublishConversionOperator(_StepOperator):
    """Make the shards visible, all at once."""

    def execute(self, context: Context) -> JsonObject:
        """Publish the shards and return the report: small JSON."""
        from trainfeed.conversion import publish_conversion

        with airflow_outcome(context):
            report = publish_conversion(conversion_roots(), str(self.plan))
        lines = [f"{name}: {value}" for name, value in report.items()]
        tell_result(context, str(context["params"]["output"]), ["the shards are published", *lines])
        return report
