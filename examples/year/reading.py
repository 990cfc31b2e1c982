"""``python -m examples.year.reading NAME``: reads all samples of a data set as a training does.

``NAME`` is what ``trainfeed.open_dataset`` takes, such as ``flights@prod``.
"""

from __future__ import annotations

import sys
from collections import Counter

import trainfeed


def main(name: str) -> None:
    """Read both splits, and print how many versions and samples there are."""
    labels, versions = Counter[int](), set[str]()
    for split in ("train", "eval"):
        with trainfeed.open_dataset(name, split=split, lease=True) as dataset:
            versions |= {version.name for version in dataset.versions}
            for block in dataset.iter_arrays():
                labels.update(block["label"].tolist())
    samples = f"{labels.total()} samples, {labels[1]} of them with label 1"
    print(f"{name}: {len(versions)} versions, {samples}")


if __name__ == "__main__":
    main(*sys.argv[1:])
