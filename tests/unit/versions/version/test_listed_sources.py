"""Versions of many files: inputs and ledger in a file, equal to those in a manifest."""

import json
import os
import shutil
import signal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.pipeline.log_project import DAY
from tests.unit.pipeline.plans.test_listed_plans import FILES, low, make_many
from trainfeed.core import faults
from trainfeed.errors import ChecksumError, FormatError, NotFoundError
from trainfeed.pipeline.version import version_report
from trainfeed.upkeep.repair import repair
from trainfeed.versions import Leaf, Ledger, SourceLedger, ValidLeaf, Version
from trainfeed.versions.file_list import LEDGER_COLUMNS, KeptList, Listed, account_of
from trainfeed.versions.manifest import SOURCES, Manifest
from trainfeed.versions.source_list import list_of_version, unequal


@pytest.fixture
def plain(project):
    found = project.elsewhere("plain")
    found.build()
    return found


@pytest.fixture
def project(tmp_path):
    return make_many(tmp_path, FILES)


@pytest.fixture
def built(project, plain, monkeypatch):
    low(monkeypatch)
    project.build()
    return project


def test_a_version_with_a_list_tells_the_same_as_one_without(built, plain):
    found, wanted = built.version(), plain.version()
    text = json.loads((found.path / "MANIFEST.json").read_bytes())
    assert (text["sources"], text["inputs"], text["ledger"]) == ([], {}, {})
    assert text["source_list"]["files"] == FILES
    ours, theirs = found.manifest, wanted.manifest
    assert ours.sources == theirs.sources
    assert dict(ours.inputs.items()) == theirs.inputs
    assert {source: ours.inputs[source] for source in theirs.sources} == theirs.inputs
    assert dict(ours.ledger.items()) == theirs.ledger
    assert (ours.span, ours.records_read, ours.bytes_read, ours.records_valid) == (
        theirs.span,
        theirs.records_read,
        theirs.bytes_read,
        theirs.records_valid,
    )
    assert (ours.content_digest, ours.fingerprint) == (theirs.content_digest, theirs.fingerprint)
    digests = ours.file_digests()
    del digests[SOURCES]
    assert digests == theirs.file_digests()
    assert list(found.problems()) == []
    ours, theirs = version_report(found, built.folder), version_report(wanted, plain.folder)
    assert (ours["sources"], ours["counts"], ours["totals"]) == (
        theirs["sources"],
        theirs["counts"],
        theirs["totals"],
    )


def test_two_builds_write_the_same_list(built):
    again = built.elsewhere("again")
    again.build()
    first, second = built.version(), again.version()
    assert first.manifest_sha256 == second.manifest_sha256
    assert (first.path / SOURCES).read_bytes() == (second.path / SOURCES).read_bytes()


def damaged(path, damage):
    data = path.read_bytes()
    path.parent.chmod(0o755)
    path.unlink()
    if damage == "flipped":
        path.write_bytes(data[:-200] + bytes([data[-200] ^ 1]) + data[-199:])
    elif damage == "cut":
        path.write_bytes(data[: len(data) // 2])
    return data


@pytest.mark.parametrize("damage", ["gone", "flipped", "cut"])
def test_a_damaged_list_is_an_error_and_is_repaired(built, damage):
    path = built.version().path / SOURCES
    data = damaged(path, damage)
    version = built.version()
    with pytest.raises((ChecksumError, NotFoundError), match=SOURCES):
        dict(version.manifest.inputs)
    with pytest.raises(FormatError, match=SOURCES):
        version.verify()
    report = repair(built.spec, built.env, DAY, 1)
    assert path.read_bytes() == data, report
    assert list(built.version().problems()) == []


def test_a_list_of_another_version_is_refused(built):
    path = built.version().path / SOURCES
    ledger = Ledger.from_json(built.version().manifest.ledger)
    inputs = dict(built.version().manifest.inputs)
    first = next(source for source, account in ledger.items() if account.read.records)
    ledger[first] = SourceLedger()
    path.parent.chmod(0o755)
    path.unlink()
    path.write_bytes(list_of_version(inputs, ledger).data)
    with pytest.raises(ChecksumError, match="another"):
        dict(built.version().manifest.ledger)


def test_a_manifest_has_either_a_list_or_its_inputs(built, plain):
    value = json.loads((built.version().path / "MANIFEST.json").read_bytes())
    value["sources"] = ["logs:a"]
    with pytest.raises(FormatError, match="beside a list"):
        Manifest.from_bytes(json.dumps(value).encode())
    value |= {"sources": [], "source_list": {"files": 1, "sha256": "0" * 64}}
    with pytest.raises(FormatError, match="another digest"):
        Manifest.from_bytes(json.dumps(value).encode())


@pytest.mark.parametrize("point", ["publish.after_list", "publish.after_manifest"])
def test_a_build_that_was_killed_about_its_list_is_finished(project, monkeypatch, point):
    low(monkeypatch)
    monkeypatch.setenv(faults.VARIABLE, f"{point}:kill")
    faults._plan.cache_clear()
    pid = os.fork()
    if not pid:
        project.build()
        os._exit(0)
    _, status = os.waitpid(pid, 0)
    monkeypatch.delenv(faults.VARIABLE)
    faults._plan.cache_clear()
    assert os.WTERMSIG(status) == signal.SIGKILL
    assert not project.folder.interval(DAY).exists()
    project.build()
    assert list(project.version().problems()) == []
    assert len(project.version().manifest.inputs) == FILES


def test_a_version_is_copied_with_its_list(built, tmp_path):
    version = built.version()
    copied = tmp_path / "copied/clicks/versions" / DAY / version.path.name
    for name in version.manifest.file_digests():
        (copied / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(version.path / name, copied / name)
    for name in ("MANIFEST.json", "MANIFEST.sha256"):
        shutil.copyfile(version.path / name, copied / name)
    assert dict(Version.open(copied).manifest.ledger) == dict(version.manifest.ledger)


COUNT = st.integers(0, 2**40)
SUM = st.integers(0, 2**64 - 1)
LEAF = st.builds(Leaf, COUNT, COUNT, SUM, SUM)
VALID = st.builds(ValidLeaf, LEAF, COUNT, SUM, SUM)
REASONS = st.dictionaries(st.text(min_size=1, max_size=4), LEAF, max_size=3)


@given(st.lists(st.tuples(VALID, LEAF, REASONS, st.booleans()), min_size=1, max_size=5))
def test_a_list_gives_back_every_account_and_finds_those_that_do_not_balance(accounts):
    ledger = {}
    for number, (valid, quarantined, filtered, is_equal) in enumerate(accounts):
        account = SourceLedger(Leaf(), valid, quarantined, filtered)
        read = account.accounted()
        read = read if is_equal else read + Leaf(0, 0, 1, 0)
        ledger[f"logs:{number}"] = SourceLedger(read, valid, quarantined, filtered)
    facts = {
        "end": 1, "connection": "c", "path": "/p", "compression": "none", "timestamp_ms": 0,
        "modified_ms": 0, "file_id": None, "checksum": None,
    }  # fmt: skip
    files = list_of_version(dict.fromkeys(ledger, facts), ledger)
    found = Listed(KeptList.of(files), LEDGER_COLUMNS, account_of)
    assert dict(found) == Ledger(ledger).to_json()
    balances = zip(ledger, (is_equal for *_, is_equal in accounts), strict=True)
    assert unequal(files) == [source for source, is_equal in balances if not is_equal]
