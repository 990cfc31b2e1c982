"""Plays simulated nights, and prints a line of JSON for each that is measured.

``python -m tests.retention 366 1`` plays all nights of seed 1 in a temporary folder. With ``--keep
FOLDER --minutes 55`` it plays a part of them, and the same command goes on; SIGTERM and SIGINT end
the part after the night that is played. Status 0: all nights were played; 75: some are left.

The landing area is on the HDFS of ``TEST_HDFS_URI`` and the publication root on the CephFS of
``TEST_CEPHFS_PATH`` where these are set, and in the folder where they are not. With ``--bucket``
the root is in the bucket of ``TEST_S3_URI``.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from pathlib import Path

from tests.integration.s3.conftest import VARIABLES
from tests.retention.kept import NotGoingOnError
from tests.retention.year import PARTS_LEFT, play_part


def main() -> int:
    """Play nights; return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m tests.retention", allow_abbrev=False)
    parser.add_argument("nights", type=int)
    parser.add_argument("seed", type=int, nargs="?", default=1)
    parser.add_argument("--keep", type=Path, help="folder of a year that is played in parts")
    parser.add_argument("--bucket", action="store_true", help="the root is in TEST_S3_URI")
    parser.add_argument("--minutes", type=float, default=60.0, help="longest part (default: 60)")
    asked = parser.parse_args()
    if asked.bucket:
        os.environ.update({name: os.environ[given] for name, given in VARIABLES.items()})
    if asked.keep is None:
        with tempfile.TemporaryDirectory() as folder:
            forever = float("inf")
            play_part(Path(folder), asked.nights, asked.seed, forever, is_in_bucket=asked.bucket)
        return 0
    try:
        is_over = play_part(
            asked.keep, asked.nights, asked.seed, asked.minutes, is_in_bucket=asked.bucket
        )
    except NotGoingOnError as error:
        sys.stderr.write(f"{error}\n")
        return 2
    return 0 if is_over else PARTS_LEFT


if __name__ == "__main__":
    sys.exit(main())
