"""Promotion and rollback against a plain model: a list of where ``prod`` led."""

import shutil
import tempfile
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from trainfeed.errors import ConfigError, ConflictError, FormatError, NotFoundError
from trainfeed.training.models import (
    PROD,
    ChosenModel,
    ModelsFolder,
    current,
    history,
    promote,
    register,
    rollback,
)

VERSIONS = st.integers(1, 3)


@pytest.fixture
def three(folder, finished):
    for number in (1, 2, 3):
        register(folder, finished(number))
    return folder


def leads_to(folder):
    found = current(folder, PROD)
    return None if found is None else found.manifest.version


def test_an_alias_leads_to_the_last_version_that_was_promoted_and_back(three):
    assert leads_to(three) is None
    for number in (1, 3, 2):
        assert promote(three, PROD, number, "better")[1]
    assert leads_to(three) == 2
    assert rollback(three, "worse")[0].version == "v0003"
    assert rollback(three, "worse")[0].version == "v0001"
    with pytest.raises(NotFoundError, match="no version that prod pointed to before; nothing was"):
        rollback(three, "worse")
    assert [(each.kind, each.version) for each in history(three, PROD)] == [
        ("promote", "v0001"),
        ("promote", "v0003"),
        ("promote", "v0002"),
        ("rollback", "v0003"),
        ("rollback", "v0001"),
    ]
    assert all(each.by and each.at for each in history(three, PROD))


def test_a_request_that_was_carried_out_changes_nothing_when_it_is_asked_again(three):
    promote(three, PROD, 1, "first", request="job 1")
    promote(three, PROD, 2, "second", request="job 2")
    rollback(three, "worse", request="run 1")
    assert promote(three, PROD, 2, "second", request="job 2")[1] is False
    assert rollback(three, "worse", request="run 1")[1] is False
    assert leads_to(three) == 1
    assert promote(three, PROD, 2, "a person wants it")[1]


def test_a_request_that_finds_its_version_promoted_is_recorded_and_undoes_no_rollback(three):
    promote(three, PROD, 1, "first")
    promote(three, PROD, 2, "a person wants it")
    asked = {"request": "job 2", "who": "ana", "account": "run 7"}
    change, is_new = promote(three, PROD, 2, "passed its gate", **asked)
    assert (change.why, change.by, change.account, is_new) == (
        "passed its gate", "ana", "run 7", False,
    )  # fmt: skip
    assert history(three, PROD)[-1] == change
    assert promote(three, PROD, 2, "passed its gate", **asked) == (change, False)
    assert promote(three, PROD, 2, "again")[1] is False
    assert len(history(three, PROD)) == 3
    assert rollback(three, "worse")[0].version == "v0001"
    assert promote(three, PROD, 2, "passed its gate", **asked)[1] is False
    assert leads_to(three) == 1


def test_a_rollback_from_another_version_than_expected_changes_nothing(three):
    promote(three, PROD, 1, "first")
    promote(three, PROD, 2, "second")
    with pytest.raises(ConflictError, match="to point to v0003, it points to v0002; nothing was"):
        rollback(three, "worse", expected=3)
    assert rollback(three, "worse", expected=2)[0].version == "v0001"
    with pytest.raises(ConflictError, match="it points to v0001"):
        rollback(three, "worse", expected=2)


def test_a_version_that_is_not_there_is_not_promoted(three):
    with pytest.raises(NotFoundError, match="is not a model"):
        promote(three, PROD, 9, "why")


@pytest.mark.parametrize("text", [b"", b"{}", b'{"kind": "burn"}', b"\xff"])
def test_a_damaged_change_is_an_error_and_not_another_version(three, text):
    promote(three, PROD, 1, "first")
    (three.alias(PROD) / "0002.json").write_bytes(text)
    with pytest.raises(FormatError, match=r"0002.json"):
        current(three, PROD)


def test_no_changed_digit_moves_prod(three):
    promote(three, PROD, 1, "first")
    path = three.alias(PROD) / "0001.json"
    data = path.read_bytes()
    path.write_bytes(data.replace(b"v0001", b"v0002"))
    with pytest.raises(FormatError):
        current(three, PROD)
    # Nor the change of another alias, or of another number.
    path.write_bytes(data)
    promote(three, PROD, 2, "second")
    other = path.with_name("0002.json")
    first, second = path.read_bytes(), other.read_bytes()
    path.write_bytes(second)
    other.write_bytes(first)
    with pytest.raises(FormatError):
        current(three, PROD)
    path.write_bytes(first)
    other.write_bytes(second)
    promote(three, "candidate", 2, "other")
    path.write_bytes((three.alias("candidate") / "0001.json").read_bytes())
    with pytest.raises(FormatError):
        current(three, PROD)


@pytest.mark.parametrize("number", [1, 2, 3])
def test_a_change_that_is_gone_is_noticed_wherever_it_was(three, number):
    for version in (1, 2, 3):
        promote(three, PROD, version, "better")
    (three.alias(PROD) / f"{number:04d}.json").unlink()
    with pytest.raises(FormatError, match=f"{number:04d}"):
        current(three, PROD)
    with pytest.raises(FormatError):
        rollback(three, "worse")


def test_a_change_without_its_confirmation_is_confirmed_by_the_same_request(three):
    promote(three, PROD, 1, "first", request="run")
    (three.alias(PROD) / "LAST.json").unlink()
    assert leads_to(three) == 1
    assert not promote(three, PROD, 1, "first", request="run")[1]
    (three.alias(PROD) / "0001.json").unlink()
    with pytest.raises(FormatError):
        current(three, PROD)


def test_of_two_promotions_at_once_both_are_in_the_history(three, monkeypatch):
    from trainfeed.training.models import aliases as _aliases

    append, raced = _aliases.append_change, []

    def slow(folder, alias, known, change):
        if not raced:
            raced.append(True)
            promote(three, PROD, 2, "faster")
        return append(folder, alias, known, change)

    monkeypatch.setattr(_aliases, "append_change", slow)
    assert promote(three, PROD, 3, "slower")[1]
    assert [each.version for each in history(three, PROD)] == ["v0002", "v0003"]


@pytest.mark.parametrize("other", [rollback, lambda folder, why: promote(folder, PROD, 1, why)])
def test_of_two_rollbacks_at_once_the_second_does_not_go_a_step_further(three, monkeypatch, other):
    from trainfeed.training.models import aliases as _aliases

    append, raced = _aliases.append_change, []

    def slow(folder, alias, known, change):
        if not raced:
            raced.append(True)
            other(three, "faster")
        return append(folder, alias, known, change)

    for number in (1, 2, 3):
        promote(three, PROD, number, "better")
    monkeypatch.setattr(_aliases, "append_change", slow)
    with pytest.raises(ConflictError, match=r"to point to v0003, it points to .*nothing was"):
        rollback(three, "slower")
    assert len(history(three, PROD)) == 4


def test_a_rollback_that_was_asked_for_twice_at_once_is_carried_out_once(three, monkeypatch):
    from trainfeed.training.models import aliases as _aliases

    append, raced = _aliases.append_change, []

    def slow(folder, alias, known, change):
        if not raced:
            raced.append(True)
            assert rollback(three, "faster", request="run")[1]
        return append(folder, alias, known, change)

    for number in (1, 2, 3):
        promote(three, PROD, number, "better")
    monkeypatch.setattr(_aliases, "append_change", slow)
    change, is_new = rollback(three, "slower", request="run")
    assert (change.version, change.why, is_new) == ("v0002", "faster", False)


@pytest.mark.parametrize(
    ("text", "is_about_aliases"),
    [("klicks@prod", True), ("klicks@v0003", False), ("klicks/v0003", False), ("klicks", False)],
)
def test_only_who_names_an_alias_hears_of_aliases(three, text, is_about_aliases):
    with pytest.raises(NotFoundError) as caught:
        ChosenModel.parse(ModelsFolder(three.models.parent), text)
    assert ("aliases of models were looked up" in str(caught.value)) == is_about_aliases


def test_a_version_is_named_in_each_form(three):
    promote(three, PROD, 2, "better")
    forms = ("clicks/v0003", "clicks@v0003", "clicks@prod", "clicks")
    found = [ChosenModel.parse(ModelsFolder(three.models.parent), form) for form in forms]
    assert [each.alias for each in found] == [None, None, PROD, PROD]
    assert [each.resolve() for each in found] == [3, 3, 2, 2]


class Prod(RuleBasedStateMachine):
    """Any history of promotions and rollbacks, some of them asked for twice."""

    @initialize()
    def make(self):
        self.home = Path(tempfile.mkdtemp(prefix="trainfeed-prod-"))
        self.folder = ModelsFolder(self.home).model("clicks")
        template = _versions(self.home)
        for number in (1, 2, 3):
            register(self.folder, template(number))
        self.stack, self.done = [], {}

    @rule(number=VERSIONS, request=st.none() | st.integers(0, 3))
    def promotes(self, number, request):
        _, is_new = promote(self.folder, PROD, number, "why", request=self.key(request))
        is_known = request is not None and ("promote", request) in self.done
        assert is_new == (not is_known and self.stack[-1:] != [number])
        if is_new:
            self.stack.append(number)
        # Also a request that found its version promoted is carried out, once.
        self.done["promote", request] = number

    @rule(request=st.none() | st.integers(0, 3))
    def rolls_back(self, request):
        if request is not None and ("rollback", request) in self.done:
            assert rollback(self.folder, "why", request=self.key(request))[1] is False
        elif len(self.stack) < 2:
            with pytest.raises(NotFoundError):
                rollback(self.folder, "why", request=self.key(request))
        else:
            rollback(self.folder, "why", request=self.key(request))
            self.stack.pop()
            self.done["rollback", request] = True

    @invariant()
    def prod_leads_to_the_top(self):
        if hasattr(self, "stack"):
            assert leads_to(self.folder) == (self.stack[-1] if self.stack else None)

    def key(self, request):
        return None if request is None else f"run {request}"

    def teardown(self):
        shutil.rmtree(self.home, ignore_errors=True)


def _versions(home):
    from tests.unit.training.models import conftest

    return conftest.finished.__wrapped__(home)


Prod.TestCase.settings = settings(max_examples=25, stateful_step_count=15, deadline=None)
TestProdIsAStack = Prod.TestCase


def test_no_alias_has_the_name_of_a_version(three):
    with pytest.raises(ConfigError, match="expected the name of a alias"):
        current(three, "v2")
