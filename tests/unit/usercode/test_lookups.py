"""Lookup files: a plan refuses pipes, devices and folders in their place, and does not wait."""

import hashlib
import os

import pytest

from tests.unit.pipeline.clicks import CODE, SPEC
from trainfeed.errors import FormatError
from trainfeed.specification import load_spec
from trainfeed.usercode import lookup_digests


@pytest.fixture
def spec(tmp_path):
    (tmp_path / "clicks").mkdir()
    (tmp_path / "clicks/preprocess.py").write_text(CODE)
    (tmp_path / "clicks/dataset.yaml").write_text(SPEC + "lookups: {names: names.csv}\n")
    (tmp_path / "clicks/names.csv").write_text("id,name\n1,a\n")
    return load_spec(tmp_path / "clicks")


def test_a_lookup_has_the_digest_of_its_bytes(spec):
    data = (spec.folder / "names.csv").read_bytes()
    assert lookup_digests(spec) == {"names": hashlib.sha256(data).hexdigest()}


@pytest.mark.timeout(30)
def test_a_pipe_in_place_of_a_lookup_is_refused_and_not_waited_for(spec):
    path = spec.folder / "names.csv"
    path.unlink()
    os.mkfifo(path)
    with pytest.raises(FormatError, match=r"expected a plain file, got a pipe in .*names\.csv"):
        lookup_digests(spec)
