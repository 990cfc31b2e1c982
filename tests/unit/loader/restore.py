"""Restores every state of a file, in a process of its own, and prints the rest of each epoch."""

import json
import sys
from pathlib import Path

ROOT = Path(__file__).parents[3]
sys.path[:0] = [str(ROOT), str(ROOT / "include")]

from tests.unit.loader.conftest import SCHEMA, labels  # noqa: E402
from trainfeed.loader import DataLoader, RecordFiles  # noqa: E402

folder = Path(sys.argv[1])
for state in json.loads((folder / "states.json").read_text()):
    with DataLoader(
        RecordFiles(str(folder / "images-*"), SCHEMA), 5, shuffle=True, seed=3
    ) as loader:
        loader.load_state_dict(state)
        print(json.dumps(labels(loader)))  # noqa: T201
