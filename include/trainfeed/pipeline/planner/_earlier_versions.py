"""Chooses the versions of earlier intervals that the gates of a plan compare with."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from itertools import islice

from trainfeed.dataset import DatasetFolder, Version
from trainfeed.errors import FormatError, NotFoundError
from trainfeed.pipeline.plans import PlannedReference, read_statistics
from trainfeed.specification import DatasetSpec, earlier_versions

__all__ = ["earlier_references"]

logger = logging.getLogger(__name__)


def earlier_references(
    spec: DatasetSpec, folder: DatasetFolder, interval: str
) -> list[PlannedReference]:
    """Return the newest generations of the nearest earlier intervals that have one.

    A version that is damaged, or goes away meanwhile, is left out with a warning in the log: it
    must not keep later intervals from being built. Statistics are read only if a gate needs them.

    Args:
        spec: The data set; its gates say how many references they need.
        folder: The same below the publication root.
        interval: Name of the interval that is planned.

    Returns:
        So many references, the newest interval first; fewer if there are fewer.

    Raises:
        StorageError: The publication root refused or failed.
    """
    reads = read_statistics(gate.model_dump() for gate in spec.quality)
    found = _references(folder, interval, statistics=reads)
    return list(islice(found, earlier_versions(spec.quality)))


def _references(
    folder: DatasetFolder, interval: str, *, statistics: bool
) -> Iterator[PlannedReference]:
    # Names of intervals are times, which sort as text.
    earlier = [name for name in folder.intervals() if name < interval]
    for name in reversed(earlier):
        generation = folder.current_generation(name)
        if generation is None:
            continue
        try:
            version = Version.open(folder.version(name, generation))
            if statistics:
                version.statistics()
        except (FormatError, NotFoundError) as error:
            logger.warning("gates of %s do not compare with %s: %s", interval, name, error)
            continue
        yield PlannedReference(
            interval=name, generation=generation, manifest_sha256=version.manifest_sha256
        )
