"""The error tree: docstring, ``__all__`` and classes are one thing; errors cross processes."""

import pickle
import re
from pathlib import Path

import pytest

from trainfeed import errors
from trainfeed.errors import FormatError, Outcome, TrainFeedError

ROOT = Path(__file__).parents[2]


def classes():
    found = [TrainFeedError]
    for cls in found:
        found += cls.__subclasses__()
    return found


def test_the_docstring_draws_every_class_with_its_outcome():
    drawn = dict(re.findall(r"([A-Za-z]+Error)\s+(RETRY|FAIL)", errors.__doc__))
    assert drawn == {
        cls.__name__: cls.outcome.name for cls in classes() if cls is not TrainFeedError
    }


def test_the_docstring_draws_every_class_below_its_parent():
    stack = {}
    for line in errors.__doc__.splitlines():
        if match := re.search(r"[A-Za-z]+Error", line):
            depth = match.start() // 4
            stack[depth] = match[0]
            if depth > 1:
                parent = getattr(errors, stack[depth - 1])
                assert getattr(errors, match[0]).__base__ is parent


def test_all_names_are_public():
    assert sorted(errors.__all__) == sorted([cls.__name__ for cls in classes()] + ["Outcome"])


@pytest.mark.parametrize("cls", classes())
def test_every_error_survives_the_way_between_processes(cls):
    error = cls("something is wrong")
    copy = pickle.loads(pickle.dumps(error))
    assert type(copy) is cls
    assert str(copy) == "something is wrong"


def test_a_format_error_says_where():
    error = FormatError("expected more", path="/x", offset_bytes=20)
    assert str(error) == "expected more in /x at byte 20"
    copy = pickle.loads(pickle.dumps(error))
    assert (copy.path, copy.offset_bytes) == ("/x", 20)


def test_a_subclass_has_an_outcome_of_its_own():
    assert errors.StorageError.outcome is Outcome.RETRY
    assert errors.NotFoundError.outcome is Outcome.FAIL


def test_samples_of_another_shape_are_a_value_error_too():
    assert issubclass(errors.SampleShapeError, ValueError)
    assert issubclass(errors.SampleShapeError, errors.LoaderError)


@pytest.mark.parametrize("cls", classes())
def test_every_error_says_its_cause_its_remedy_and_the_page_that_has_it(cls):
    page = (ROOT / "docs/reference/errors.md").read_text()
    said = re.search(
        r"\n +Cause: \S.*\n +Remedy: \S.*\n +See (\S+)#(\S+)\n", cls.__doc__, re.DOTALL
    )
    assert said, cls.__doc__
    assert said[1] == "docs/reference/errors.md"
    assert said[2] == cls.__name__.lower()
    assert f"\n## {cls.__name__}\n" in page


def test_the_docstring_of_a_class_ends_with_the_link_to_its_section():
    reference = (ROOT / "docs/reference/errors.md").read_text()
    for cls in classes():
        if cls is not TrainFeedError and cls.__module__ == errors.__name__:
            assert cls.__doc__.rstrip().endswith(f"docs/reference/errors.md#{cls.__name__.lower()}")
            assert f"## {cls.__name__}" in reference
