"""Failed assertions of the shared cases show their values, as those of test files do."""

from __future__ import annotations

import pytest

pytest.register_assert_rewrite(
    "tests.unit.files.stores.file_system_behaviour", "tests.unit.files.stores.racing"
)
