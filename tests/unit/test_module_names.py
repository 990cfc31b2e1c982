"""Names of private modules: two rooms never have the same one, so a name says its room."""

from collections import Counter
from pathlib import Path

import trainfeed

# Pairs from before the rule, each clear from its folder; a new pair takes a longer name instead.
OLDER = {
    "_jobs.py": "jobs of `trainfeed training`, and parallel jobs of preprocessing",
    "_model.py": "a published model, and the fields of a specification",
    "_source.py": "sources of the loader, and sources of a transfer of folders",
}


def test_two_rooms_have_no_private_modules_of_the_same_name():
    root = Path(trainfeed.__file__).parent
    names = Counter(path.name for path in root.rglob("_*.py") if path.name != "__init__.py")
    assert len(names) > 100
    assert {name for name, number in names.items() if number > 1} <= set(OLDER)
