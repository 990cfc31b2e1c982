"""The launcher ``local``: the ranks of a job as processes of this machine, which end with it."""

from trainfeed.jobs.local._ended import Ended, ended_error
from trainfeed.jobs.local._local_job import LocalLauncher

__all__ = ["Ended", "LocalLauncher", "ended_error"]
