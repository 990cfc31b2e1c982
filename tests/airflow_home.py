"""A folder that Airflow may live in for as long as this process does.

It is new: one named after the process may have been left there by an earlier one of that number.
"""

from __future__ import annotations

import atexit
import shutil
import tempfile

__all__ = ["HOME"]

HOME = tempfile.mkdtemp(prefix="trainfeed-airflow-")
atexit.register(shutil.rmtree, HOME, ignore_errors=True)
