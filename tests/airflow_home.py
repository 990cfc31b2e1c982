"""A folder that Airflow may live in for as long as this process does.

The folder has a new name: a folder named after the pid may be left from an earlier process.
"""

from __future__ import annotations

import atexit
import shutil
import tempfile

__all__ = ["HOME"]

HOME = tempfile.mkdtemp(prefix="trainfeed-airflow-")
atexit.register(shutil.rmtree, HOME, ignore_errors=True)
