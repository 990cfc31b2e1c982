"""Work files between two stages are read with the types that were written, or refused."""

import pytest

from tests.unit.pipeline.test_concurrent import run_until
from trainfeed.core import canonical_json
from trainfeed.errors import FormatError, GateError
from trainfeed.pipeline import Build
from trainfeed.pipeline.check import check
from trainfeed.pipeline.functions.account import Lateness, RecordAccount
from trainfeed.pipeline.publish import publish
from trainfeed.pipeline.stage import Stage
from trainfeed.pipeline.version import VERDICTS, ShardPart
from trainfeed.versions import Ledger
from trainfeed.versions.manifest import ShardEntry

ENTRY = ShardEntry(
    name="clicks-train-00000-of-00000",
    bytes=5,
    samples=1,
    sha256="a" * 64,
    records_sha256="b" * 64,
)
PART = ShardPart(ENTRY, [{"offset_bytes": 0, "num_records": 1}], {"value": {"count": 1}})
ACCOUNT = RecordAccount(Ledger(), {"kafka:clicks/0": Lateness(late=2, ahead=1)}, [0, 1], "c" * 64)


@pytest.fixture
def checked(project):
    """A build whose verdict is written."""
    return Build(project.spec, project.env, run_until(project, check))


def test_a_verdict_is_read_as_it_was_written(checked):
    file = Stage.open(checked).verdict_file
    data = file.read_bytes()
    verdict = VERDICTS.parse(data, file.uri)
    assert verdict.quarantine.reasons == {"not_json": 18}
    assert VERDICTS.dumps(verdict) == data


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("gates", [{"check": "count"}]),
        ("shards", [{"split": "train", "name": "a"}]),
        ("late", {"policy": {}, "later": 1}),
        ("quarantine", {"records": 1}),
        ("filtered", {"empty": "6"}),
        ("ledger", {"kafka:clicks/0": {}}),
        ("statistics", 7),
        ("schema_changes", [7]),
        ("shard_skew", {"samples": "large"}),
    ],
)
def test_a_verdict_that_is_something_else_is_refused(checked, name, value):
    resealed(checked, lambda verdict: verdict.update({name: value}))
    assert_refused(checked)


def resealed(checked, change):
    """Change the content of a verdict, and seal it again."""
    file = Stage.open(checked).verdict_file
    verdict = canonical_json.loads(file.read_bytes())
    del verdict["digest"]
    change(verdict)
    data = canonical_json.seal(canonical_json.dumps(verdict).removesuffix(b"}"))
    file.write_atomic(lambda target: target.write(data))


def assert_refused(checked):
    with pytest.raises(FormatError, match=r"expected the verdict.*clear the task check"):
        publish(checked)
    # The remedy that the error names.
    check(checked)
    assert publish(checked).verdict == "built"


def first_source(verdict):
    return next(iter(verdict["ledger"].values()))


def count_up(key, *above):
    def change(verdict):
        place = first_source(verdict)
        for name in above:
            place = place[name]
        place[key] += 1

    return change


def count_up_all(verdict):
    """More records are read and valid, but no more samples are in the shards."""
    for outcome in ("read", "valid"):
        first_source(verdict)[outcome]["records"] += 1
    first_source(verdict)["valid"]["samples"] += 1


@pytest.mark.parametrize(
    "change",
    [
        count_up("records", "read"),
        count_up("bytes", "valid"),
        count_up("samples", "valid"),
        count_up_all,
        lambda verdict: verdict["quarantine"]["reasons"].update(not_json=17),
        lambda verdict: verdict["filtered"].update(negative=0),
        lambda verdict: verdict["filtered"].update(other=1),
        lambda verdict: verdict["shards"].pop(),
        lambda verdict: verdict["shards"].reverse(),
        lambda verdict: verdict["shards"][0].update(samples=0),
        lambda verdict: verdict["shards"][0].update(name="clicks-train-00009-of-00009"),
        lambda verdict: verdict.update(dataset="other"),
        lambda verdict: verdict.update(interval="2024-03-02"),
        lambda verdict: verdict.update(plan_id="0" * 16 + "-g0001"),
    ],
)
def test_a_verdict_that_contradicts_itself_or_its_plan_is_refused_although_it_is_sealed(
    checked, change
):
    resealed(checked, change)
    assert_refused(checked)


def test_no_changed_or_cut_verdict_is_read(checked):
    data = Stage.open(checked).verdict_file.read_bytes()
    for place in range(len(data)):
        for changed in (data[:place], data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :]):
            with pytest.raises(FormatError, match="clear the task check"):
                VERDICTS.parse(changed, "check.json")


def test_a_verdict_without_a_seal_is_refused(checked):
    file = Stage.open(checked).verdict_file
    verdict = canonical_json.loads(file.read_bytes())
    del verdict["digest"]
    file.write_atomic(lambda target: target.write(canonical_json.dumps(verdict)))
    assert_refused(checked)


def test_a_verdict_about_another_interval_is_refused_in_its_place(project, checked):
    other = Build(project.spec, project.env, run_until(project, check, "2024-03-02"))
    data = Stage.open(other).verdict_file.read_bytes()
    Stage.open(checked).verdict_file.write_atomic(lambda target: target.write(data))
    assert_refused(checked)


def test_a_verdict_about_an_earlier_form_of_its_plan_is_refused(checked):
    resealed(checked, lambda verdict: verdict.update(plan_sha256="0" * 64))
    with pytest.raises(GateError, match="made again"):
        publish(checked)


def test_what_is_known_of_a_shard_is_read_from_a_trailer_with_further_keys():
    assert ShardPart.from_json({**PART.to_json(), "starts": [0]}) == PART


@pytest.mark.parametrize(
    ("name", "value"), [("shard", {"name": "a"}), ("chunks", 7), ("statistics", None)]
)
def test_a_trailer_that_knows_no_shard_is_refused(name, value):
    changed = {**PART.to_json(), name: value}
    if value is None:
        del changed[name]
    with pytest.raises(FormatError, match=r"expected the account of a shard.*convert on"):
        ShardPart.from_json(changed)


def test_an_account_is_read_from_a_trailer_with_further_keys():
    assert RecordAccount.from_json({**ACCOUNT.to_json(), "rows": {}}) == ACCOUNT


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("ledger", 7),
        ("late", {"a": {"late": "2"}}),
        ("late", {"a": {"x": 1}}),
        ("ranges", [-1]),
        ("cut", None),
    ],
)
def test_a_trailer_without_an_account_is_refused(name, value):
    with pytest.raises(FormatError, match="expected"):
        RecordAccount.from_json({**ACCOUNT.to_json(), name: value})


def test_accounts_of_parts_are_added_up_in_their_order():
    total = RecordAccount.total([ACCOUNT, RecordAccount(Ledger(), ACCOUNT.late, [5], ACCOUNT.cut)])
    assert total.late == {"kafka:clicks/0": Lateness(late=4, ahead=2)}
    assert (total.ranges, total.cut) == ([0, 1, 5], ACCOUNT.cut)
