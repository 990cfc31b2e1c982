"""One interval built in this process: the stage at work on the terminal, then the report."""

from __future__ import annotations

from trainfeed.cli._printing import error_console, print_json, print_mapping
from trainfeed.config import Environment
from trainfeed.intervals import Interval
from trainfeed.pipeline.local import BuildRequest
from trainfeed.pipeline.local import build as run_build
from trainfeed.specification import DatasetSpec

__all__ = ["build_one"]


def build_one(
    spec: DatasetSpec, env: Environment, interval: Interval, request: BuildRequest, *, as_json: bool
) -> None:
    """Build an interval as asked, and print the report."""
    place = f"{spec.name}/{interval.name}"
    with error_console().status("") as status:
        report = run_build(
            spec,
            interval,
            env,
            request,
            on_stage=lambda stage: status.update(f"{place}: {stage}"),
        )
    print_json(report.to_json()) if as_json else print_mapping(report.to_json())
