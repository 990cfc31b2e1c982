"""``trainfeed diff``: lines that are read at once, JSON lines of samples, exit status."""

import json

import pytest

A, B = "2024-03-01/g0001", "2024-03-01/g0002"


@pytest.fixture
def rebuilt(project):
    project.prebuilt()
    project.edit('row["value"] < 0', 'row["value"] < 2', "preprocess.py")
    project.edit('"label": n}', '"label": n + (row["value"] == 12)}', "preprocess.py")
    project.prebuilt(rebuild="small ones are noise")
    return project


def test_equal_versions_end_with_0(cli, project):
    project.prebuilt()
    project.prebuilt(rebuild="again")
    status, output, _ = cli("diff", "clicks", A, B)
    assert status == 0
    assert output.splitlines()[0] == f"{A} → {B}, built because: again"
    assert "147 equal, 0 added, 0 removed, 0 changed, 0 moved" in output


def test_what_differs_is_told_and_ends_with_3(cli, rebuilt):
    status, output, _ = cli("diff", "clicks", A, B, "-n", "1")
    assert status == 3
    for line in (
        "equal: plan, specification, lookups, libraries, schema, gates",
        '    -    if row["value"] < 0:',
        "  filtered: negative 18 → 24",
        "  changed fields: label 3",
        "  removed: not quarantined 6",
        "  changed kafka:clicks/1@12 (train): label 0 → 1",
    ):
        assert line in output.splitlines()


@pytest.mark.parametrize(
    "arguments",
    [
        ("clicks", "g0001", "g0002", "--interval", "2024-03-01"),
        (f"clicks/{A}", "clicks/2024-03-01"),
        ("clicks", A, "2024-03-01"),
    ],
)
def test_versions_are_named_in_several_ways(cli, rebuilt, arguments):
    status, output, _ = cli("diff", *arguments, "--json")
    found = json.loads(output)
    assert (status, found["first"]["name"], found["second"]["name"]) == (3, A, B)


def test_versions_are_named_by_their_folders(cli, rebuilt):
    places = [str(rebuilt.version(generation=number).path) for number in (1, 2)]
    found = json.loads(cli("diff", *places, "--json")[1])
    assert found["records"]["counts"]["changed"] == 3


@pytest.mark.parametrize(
    "arguments",
    [
        ("clicks",),
        ("clicks", "g0001"),
        ("clicks", "g0001", "g0002"),
        ("clicks", A, B, "--interval", "2024-03-01"),
        ("clicks", A, B, A),
    ],
)
def test_other_arguments_are_refused(cli, rebuilt, arguments):
    status, output, message = cli("diff", *arguments)
    assert (status, output, "expected" in message) == (2, "", True)


@pytest.mark.parametrize(
    "arguments",
    [
        ("clicks/2024-03-01",),
        (f"clicks/{B}",),
        ("clicks", "2024-03-01"),
        ("clicks", B),
        ("clicks", "--interval", "2024-03-01"),
    ],
)
def test_one_version_alone_is_compared_with_the_one_before_it(cli, rebuilt, arguments):
    status, output, message = cli("diff", *arguments, "--json")
    found = json.loads(output)
    assert (status, found["first"]["name"], found["second"]["name"]) == (3, A, B)
    told = "compared with clicks/2024-03-01/g0001, the version of the same interval"
    assert told in " ".join(message.split())


def test_a_withdrawn_version_before_is_what_was_corrected(cli, rebuilt):
    assert cli("withdraw", f"clicks/{B}", "--why", "wrong")[0] == 0
    rebuilt.prebuilt(rebuild="right again")
    found = json.loads(cli("diff", "clicks/2024-03-01", "--json")[1])
    assert (found["first"]["name"], found["first"]["state"]) == (B, "withdrawn")


def test_the_first_version_of_an_interval_is_compared_with_the_interval_before(cli, project):
    project.prebuilt()
    project.prebuilt("2024-03-02")
    status, output, message = cli("diff", "clicks/2024-03-02")
    assert (status, output.splitlines()[0]) == (3, f"{A} → 2024-03-02/g0001")
    told = "compared with clicks/2024-03-01/g0001, of the interval before"
    assert told in " ".join(message.split())
    status, output, message = cli("diff", "clicks/2024-03-01")
    assert (status, output) == (1, "")
    assert "it is the first; name the other one: trainfeed diff clicks" in " ".join(message.split())


def test_a_version_that_was_pruned_is_not_the_one_before(cli, project):
    project.edit("seed: 7\n", "seed: 7\nretention: {keep_generations: 1}\n")
    project.prebuilt()
    project.prebuilt("2024-03-02")
    project.prebuilt("2024-03-02", rebuild="again")
    assert cli("prune", "clicks")[0] == 0
    assert cli("diff", "clicks/2024-03-02")[1].splitlines()[0].startswith(f"{A} → 2024-03-02/g0002")


def test_records_are_json_lines_with_both_samples(cli, rebuilt):
    status, output, _ = cli("diff", "clicks", A, B, "--records")
    found = [json.loads(line) for line in output.splitlines()]
    assert status == 3
    assert sorted(each["kind"] for each in found) == ["changed"] * 3 + ["removed"] * 6
    changed = next(each for each in found if each["kind"] == "changed")
    assert changed["fields"] == ["label"]
    assert changed["samples"] == [{"value": 12.0, "label": 0}, {"value": 12.0, "label": 1}]
    assert len(cli("diff", "clicks", A, B, "--records", "-n", "1")[1].splitlines()) == 2
    assert cli("diff", "clicks", A, A, "--records") == (0, "", "")


def test_records_that_cannot_be_compared_end_with_1(cli, rebuilt):
    rebuilt.prebuilt("2024-03-02")
    status, output, message = cli("diff", "clicks", "2024-03-01", "2024-03-02", "--records")
    assert (status, output) == (1, "")
    assert "different by nature" in message


def test_a_removed_version_without_a_difference_ends_with_1(cli, project):
    project.edit("seed: 7\n", "seed: 7\nretention: {keep_generations: 1}\n")
    project.prebuilt()
    project.prebuilt(rebuild="again")
    assert cli("prune", "clicks")[0] == 0
    status, output, message = cli("diff", "clicks", A, B)
    assert "samples: not compared, 2024-03-01/g0001 was removed by retention" in output
    assert (status, "cannot be told" in message) == (1, True)


def test_raw_bytes_of_the_quarantine_are_not_printed(cli, rebuilt):
    rebuilt.edit('return Filtered("negative")', 'raise Reject("negative", "")', "preprocess.py")
    rebuilt.prebuilt(rebuild="stricter")
    for more in ((), ("--json",), ("--records",)):
        assert "not json" not in cli("diff", "clicks", A, "2024-03-01/g0003", *more)[1]


def test_a_damaged_version_ends_with_3_and_is_named(cli, rebuilt):
    path = rebuilt.version(generation=1).path / "MANIFEST.json"
    path.chmod(0o644)
    path.write_bytes(path.read_bytes() + b" ")
    status, _, message = cli("diff", "clicks", A, B)
    assert (status, str(path) in message.replace("\n", "")) == (3, True)


def test_histograms_and_components_are_counted_and_not_printed(cli, project):
    project.edit("value: {dtype: float32}", "value: {dtype: float32, shape: [2]}")
    project.edit('"value": row["value"]', '"value": [row["value"], 1.0]', "preprocess.py")
    project.prebuilt()
    project.edit('row["value"] < 0', 'row["value"] < 2', "preprocess.py")
    project.prebuilt(rebuild="small ones are noise")
    output = cli("diff", "clicks", A, B)[1]
    assert "histograms and lists of components, which --json has" in output
    assert "[{'histogram" not in output
