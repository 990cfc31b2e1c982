"""The fault points that modules name, so that a test can show that each is killed at."""

import re
from pathlib import Path

import trainfeed

PACKAGE = Path(trainfeed.__file__).parent


def points_in(*places):
    """Return the names of the points in modules and rooms, given as paths below ``trainfeed``."""
    paths = [path for place in places for path in modules_of(PACKAGE / place)]
    found = set(re.findall(r'faults\.point\("([^"]+)"\)', source_of(paths)))
    assert found
    return found


def modules_of(place):
    return [place] if place.suffix else sorted(place.rglob("*.py"))


def source_of(paths):
    return "".join(path.read_text() for path in paths)
