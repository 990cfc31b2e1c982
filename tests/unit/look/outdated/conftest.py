"""The small data set of the build tests."""

from tests.unit.pipeline.conftest import project

__all__ = ["project"]
