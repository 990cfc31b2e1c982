"""Public sets on a real CephFS: built by the administrator, read by a user, closed to writes."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.publicsets.idx_files import NUM_TRAIN, write_mnist
from trainfeed.errors import AccessDeniedError
from trainfeed.loader import DataLoader
from trainfeed.publicsets import build_public_set, open_public, use_public_set
from trainfeed.versions import init_root


@pytest.fixture
def idx(tmp_path: Path) -> Path:
    folder = tmp_path / "idx"
    write_mnist(folder)
    return folder


def test_a_user_reads_and_verifies_what_the_administrator_built_and_writes_nothing(
    centre, idx, tmp_path
):
    layout, user = centre.storage.layout, centre.new_name()
    # The first user gives the public folder its own namespace of objects, while it is empty.
    centre.add(user)
    root = centre.storage.folder(layout.public) / "dataset"
    init_root(root)
    built = build_public_set("mnist", originals=idx, root=root)
    assert built.report.verdict == "built"
    mount = tmp_path / "public"
    centre.ceph.mount(mount, client=user, subdir=layout.public)
    try:
        seen = mount / "dataset"
        found = use_public_set("mnist", root=seen)
        assert found.is_whole
        digest = found.found.version.manifest_sha256
        assert digest == built.report.published.summary.manifest_sha256
        with DataLoader(open_public("mnist", split="train", root=seen), 16) as batches:
            assert sum(len(batch["label"]) for batch in batches) == NUM_TRAIN
        with pytest.raises(PermissionError):
            (seen / "mine").write_bytes(b"mine")
        with pytest.raises(PermissionError):
            next(seen.glob("mnist/versions/*/g0001/MANIFEST.json")).unlink()
        write_mnist(idx, seed=9)
        with pytest.raises(AccessDeniedError):
            build_public_set("mnist", originals=idx, root=seen)
        assert [path.name for path in seen.glob("mnist/versions/*/g*")] == ["g0001"]
    finally:
        centre.ceph.unmount(mount)
