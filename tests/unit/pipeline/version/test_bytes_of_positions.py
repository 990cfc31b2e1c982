"""The published positions tell nothing about the tasks that wrote them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from trainfeed.pipeline.local import build


@pytest.mark.parametrize("records", [20, 70])
def test_small_shards_have_the_bytes_of_their_own_rows_alone(project, records):
    """Behind odd numbers of rows, Arrow once wrote those of the next shard of the task."""
    project.edit("samples_per_shard: 50", "shards: 90")
    project.build()
    other = project.elsewhere("other")
    resources = project.spec.resources.model_copy(update={"records_per_task": records})
    spec = project.spec.model_copy(update={"resources": resources})
    build(spec, project.interval(), other.env)
    digests = [
        (each.version().path / "MANIFEST.sha256").read_text()
        for each in (project, replace(other, path=project.path))
    ]
    assert digests[0] == digests[1]
