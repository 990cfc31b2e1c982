"""Builds that publish nothing: a preview of the first records, and a dry run."""

from trainfeed.pipeline.preview._dry_run import dry_run
from trainfeed.pipeline.preview._dry_run_report import DryRun, describe
from trainfeed.pipeline.preview._preview_build import preview
from trainfeed.pipeline.preview._preview_report import shown_value
from trainfeed.pipeline.preview._shadow import boundaries_apart, shadowed

__all__ = [
    "DryRun",
    "boundaries_apart",
    "describe",
    "dry_run",
    "preview",
    "shadowed",
    "shown_value",
]
