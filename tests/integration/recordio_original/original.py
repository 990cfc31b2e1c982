"""Runs the original library, whose Go runtime does not survive a fork and dies of small mistakes.

``original.py write|read FILE…``: on standard input, respectively output, one record per line in
hex, a line ``-`` behind the last record of each file.
"""

import sys

from recordio import reader, writer


def write(path):
    file = writer(path)
    if file.w == -1:
        sys.exit(f"the original cannot write {path}")
    for line in iter(sys.stdin.readline, "-\n"):
        file.write(bytes.fromhex(line))
    file.close()


def read(path):
    file = reader(path)
    if file.r == -1:
        sys.exit(f"the original cannot read {path}")
    for record in iter(file.read, None):
        sys.stdout.write(record.hex() + "\n")
    sys.stdout.write("-\n")
    file.close()


if __name__ == "__main__":
    for name in sys.argv[2:]:
        {"write": write, "read": read}[sys.argv[1]](name)
