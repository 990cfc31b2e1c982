"""The small data set of the build tests."""

from tests.unit.build.conftest import project

__all__ = ["project"]
