"""Versions without shards, published by hand: their manifests are all that a status looks at."""

from __future__ import annotations

import hashlib

from tests.support.manifests import accounted
from tests.unit.versions.coverage.test_coverage import EMPTY
from trainfeed.core.intervals import format_time
from trainfeed.versions import Manifest
from trainfeed.versions.layout import CURRENT, MANIFEST, MANIFEST_DIGEST, generation_name

__all__ = ["publish", "topic"]


def topic(start, end, partition=0, uuid="u"):
    """Inputs of one partition."""
    planned = {"start": start, "end": end, "connection": "kafka_default", "topic": "clicks"}
    planned |= {"topic_uuid": uuid, "cluster": "c", "partition": partition}
    return {f"kafka:clicks/{partition}": planned}


def publish(folder, interval, generation=1, *, points=True, **facts):
    """Publish a version; ``facts`` replace values of the manifest."""
    span = {"start": format_time(interval.start), "end": format_time(interval.end)}
    values = {**EMPTY, "empty": False, "generation": generation, "interval": span, **facts}
    data = Manifest.model_validate(accounted(values)).to_bytes()
    version = folder.version(interval.name, generation)
    version.mkdir(parents=True)
    (version / MANIFEST).write_bytes(data)
    (version / MANIFEST_DIGEST).write_text(hashlib.sha256(data).hexdigest() + "\n")
    if points:
        (version.parent / CURRENT).write_text(f"{generation_name(generation)}\n")
    return version
