"""Documents of a data set: files that every version gets, counted in its fingerprint."""

import hashlib

import pytest

from trainfeed.errors import (
    ChecksumError,
    CodeChangedError,
    ConfigError,
    ConflictError,
    NotFoundError,
    SpecError,
)
from trainfeed.pipeline.local import build
from trainfeed.pipeline.plan import plan
from trainfeed.pipeline.plans import load_plan
from trainfeed.versions import Manifest


@pytest.fixture
def documented(project):
    folder = project.env.datasets / "clicks"
    (folder / "papers").mkdir()
    (folder / "papers" / "LICENCE.txt").write_text("free for all\n")
    (folder / "SOURCE.json").write_text("{}")
    project.edit("seed: 7", "seed: 7\ndocuments: [SOURCE.json, papers/LICENCE.txt]")
    return project


def write_licence(project, text):
    (project.env.datasets / "clicks" / "papers" / "LICENCE.txt").write_text(text)


def test_a_version_has_the_documents_of_its_data_set(documented):
    documented.build()
    version = documented.version()
    assert version.documents() == ["LICENCE.txt", "SOURCE.json"]
    assert version.document("LICENCE.txt") == b"free for all\n"
    digest = hashlib.sha256(b"free for all\n").hexdigest()
    entry = version.manifest.file_digests()["documents/LICENCE.txt"]
    assert entry == (len("free for all\n"), digest)
    version.verify()
    assert (version.path / "documents" / "LICENCE.txt").stat().st_mode & 0o777 == 0o444


def test_another_licence_makes_another_version_and_never_changes_a_published_one(documented):
    documented.build()
    before = documented.version().manifest_sha256
    assert documented.build()["verdict"] == "identical"
    write_licence(documented, "for sale\n")
    with pytest.raises(ConflictError, match=r"documents\.LICENCE\.txt: '[0-9a-f]{64}' → "):
        documented.build()
    assert documented.version().manifest_sha256 == before
    documented.build(rebuild="a new licence")
    assert documented.version().document("LICENCE.txt") == b"for sale\n"
    first = documented.version(generation=1)
    assert first.document("LICENCE.txt") == b"free for all\n"
    # The samples are the same: loaders and trainings see no other content.
    assert first.manifest.content_digest == documented.version().manifest.content_digest


def test_a_data_set_without_documents_has_the_fingerprint_and_manifest_of_before(project):
    project.build()
    manifest = Manifest.read(project.version().path)[0]
    assert [file.name for file in manifest.files] == [
        "CHUNKS.arrow", "POSITIONS.arrow", "quarantine/records.arrow", "statistics.json"
    ]  # fmt: skip
    planned = load_plan(project.folder, plan_ref(project))
    assert "documents" not in planned.fingerprint_of
    assert b'"documents"' not in planned.to_bytes()


def plan_ref(project):
    return plan(project.spec, project.interval(), project.env).ref


def test_a_document_that_changes_during_a_build_stops_it(documented):
    def change(stage):
        if stage == "check":
            write_licence(documented, "for sale\n")

    with pytest.raises(CodeChangedError, match=r"'LICENCE\.txt' of data set 'clicks' changed"):
        build(documented.spec, documented.interval(), documented.env, on_stage=change)
    assert documented.folder.current_generation("2024-03-01") is None


def test_a_missing_document_is_named_before_anything_is_read(documented):
    (documented.env.datasets / "clicks" / "SOURCE.json").unlink()
    with pytest.raises(ConfigError, match=r"'SOURCE\.json' of data set 'clicks' is missing"):
        documented.build()


def test_a_changed_document_of_a_version_is_refused_by_readers_and_by_verify(documented):
    documented.build()
    version = documented.version()
    path = version.path / "documents" / "LICENCE.txt"
    path.chmod(0o644)
    path.write_text("FREE for all\n")
    with pytest.raises(ChecksumError):
        version.document("LICENCE.txt")
    with pytest.raises(ChecksumError):
        version.verify()
    with pytest.raises(NotFoundError, match=r"was published without documents/other\.txt"):
        version.document("other.txt")


@pytest.mark.parametrize(
    "paths", ["../LICENCE.txt", "/etc/passwd", "a/L.txt, b/L.txt", "'näme.txt'", "'.hidden'"]
)
def test_documents_have_safe_and_different_names(project, paths):
    project.edit("seed: 7", f"seed: 7\ndocuments: [{paths}]")
    with pytest.raises(SpecError, match="documents"):
        project.build()
