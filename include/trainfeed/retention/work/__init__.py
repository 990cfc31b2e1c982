"""Retention of work files: what killed and abandoned builds of one data set left behind."""

from trainfeed.retention.work._work_kind import WorkFiles

__all__ = ["WorkFiles"]
