"""Publication roots as they were before their small files had seals."""

import json
from pathlib import Path

from trainfeed.core import canonical_json
from trainfeed.files.records import ONCE_UNSEALED, ROOT_MARK_FILE


def as_before(root):
    """Take the seals from all files of a root that once had none, and the list from its mark."""
    for place in ONCE_UNSEALED.values():
        for path in Path(root).glob(place):
            # Aliases had no such file.
            path.unlink() if path.name == "LAST.json" else unseal(path)
    mark = Path(root) / ROOT_MARK_FILE
    value = json.loads(mark.read_bytes())
    kept = {name: value[name] for name in ("format", "id", "made_at", "made_by")}
    mark.write_bytes(canonical_json.dumps(kept))


def reseal(path, **changes):
    """Change members of a sealed file, and seal it again: what no seal can show."""
    value = json.loads(path.read_bytes()) | changes
    del value["digest"]
    write_sealed(path, value)


def write_sealed(path, value):
    """Write a sealed file with these members."""
    path.write_bytes(canonical_json.seal(canonical_json.dumps(value).removesuffix(b"}")))


def unseal(path):
    """Take the seal from a file; its other bytes stay."""
    data = path.read_bytes()
    if b',\n "digest": ' in data:
        path.write_bytes(data[: data.rindex(b',\n "digest": ')] + b"}")
