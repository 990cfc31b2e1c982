"""The data set with uploads."""

import pytest

from tests.unit.uploads.labelled import make_labelled


@pytest.fixture
def labelled(tmp_path):
    return make_labelled(tmp_path)
