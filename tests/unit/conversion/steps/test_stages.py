"""The conversion in steps: the same bytes as in one process, whatever is repeated or killed."""

from __future__ import annotations

import dataclasses
import json
import os
import shutil
import signal
from contextlib import suppress

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.unit.conversion.conftest import (
    FIXED,
    VARIABLE,
    contents,
    fixed_samples,
    names_in,
    variable_samples,
)
from tests.unit.forks import in_a_fork
from trainfeed.conversion import (
    ColumnOptions,
    ConversionRequest,
    ConvertOptions,
    FileFormat,
    Roots,
    convert,
    convert_files,
    gather_shards,
    plan_conversion,
    publish_conversion,
    scatter_files,
)
from trainfeed.conversion import steps as _stages
from trainfeed.core import canonical_json, faults
from trainfeed.errors import ConfigError, FormatError, NonDeterminismError, NotFoundError


@pytest.fixture
def roots(tmp_path):
    for name in ("in", "out", "work"):
        (tmp_path / name).mkdir()
    return Roots((tmp_path / "in",), (tmp_path / "out",), tmp_path / "work")


@pytest.fixture
def inputs(roots):
    """A set of typed shards."""
    folder = roots.inputs[0] / "raw"
    convert(folder, variable_samples(500), 5, "raw", schema=VARIABLE, seed=11)
    return folder


def request(**changes):
    base = ConversionRequest(
        input="raw/raw-*",
        output="new",
        shards=7,
        prefix="p",
        seed=3,
        file_format=FileFormat.RECORDIO,
        codec="none",
        run="run1",
    )
    return dataclasses.replace(base, **changes)


def run(roots, wanted, max_units=4):
    planned = plan_conversion(wanted, roots, max_units=max_units)
    name, units = planned["plan"], range(planned["units"])
    scattered = [scatter_files(roots, name, unit) for unit in units]
    gathered = [gather_shards(roots, name, unit) for unit in units]
    return name, scattered, gathered, publish_conversion(roots, name)


@pytest.mark.parametrize("file_format", list(FileFormat))
@pytest.mark.parametrize("max_units", [1, 3, 64])
def test_the_steps_make_the_files_of_one_process(roots, inputs, tmp_path, file_format, max_units):
    _, _, _, report = run(roots, request(file_format=file_format, codec="gzip"), max_units)
    options = ConvertOptions(file_format=file_format)
    manifest = convert_files(
        str(inputs / "raw-*"), tmp_path / "local", 7, "p", seed=3, codec="gzip", options=options
    )
    assert contents(roots.outputs[0] / "new") == contents(tmp_path / "local")
    assert report["verdict"] == "published"
    assert (report["samples"], report["bytes"]) == (500, manifest.num_bytes)
    assert names_in(roots.outputs[0]) == ["new"]


def test_more_units_than_files_or_shards_are_idle(roots, inputs):
    _, scattered, gathered, _ = run(roots, request(shards=2, input="raw/raw-0000[01]*"), 64)
    assert [each["verdict"] for each in scattered + gathered] == ["built"] * 4
    _, scattered, _, _ = run(roots, request(shards=6, input="raw/raw-00000*", run="2"), 64)
    assert sorted(each["verdict"] for each in scattered) == ["built", *["idle"] * 5]


def test_every_step_may_be_taken_again(roots, inputs):
    wanted = request()
    name, scattered, gathered, _ = run(roots, wanted)
    before = contents(roots.outputs[0] / "new")
    assert plan_conversion(wanted, roots)["plan"] == name
    units = range(len(gathered))
    assert {gather_shards(roots, name, unit)["verdict"] for unit in units} == {"adopted"}
    assert publish_conversion(roots, name)["verdict"] == "adopted"
    assert contents(roots.outputs[0] / "new") == before
    assert {each["verdict"] for each in scattered} == {"built"}


@pytest.mark.parametrize(
    "change",
    [
        {"input": "raw/raw-0000[01]*"},
        {"output": "other"},
        {"shards": 8},
        {"prefix": "q"},
        {"seed": 4},
        {"file_format": FileFormat.TFRECORD},
        {"codec": "gzip"},
        {"run": "run2"},
    ],
    ids=lambda change: next(iter(change)),
)
def test_a_run_that_is_made_again_with_another_request_gets_another_plan(roots, inputs, change):
    first = plan_conversion(request(), roots)["plan"]
    assert plan_conversion(request(**change), roots)["plan"] != first
    assert plan_conversion(request(), roots)["plan"] == first


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("a.csv", {"delimiter": ";"}),
        ("a.parquet", {"columns": ColumnOptions(as_json=("text",))}),
    ],
)
def test_so_does_a_run_that_is_made_again_with_another_reading_of_its_files(roots, name, change):
    (roots.inputs[0] / "a.csv").write_text("text\nx\n")
    pq.write_table(pa.table({"text": ["x"]}), roots.inputs[0] / "a.parquet")
    first, other = (
        plan_conversion(request(input=name, **more), roots)["plan"] for more in ({}, change)
    )
    assert other != first


def test_another_run_replaces_the_set(roots, inputs):
    run(roots, request())
    (roots.outputs[0] / "new" / "notes").write_text("mine")
    run(roots, request(run="run2", shards=3))
    assert names_in(roots.outputs[0] / "new") == [
        ".p.lock",
        "notes",
        *(f"p-{i:05d}-of-00002" for i in range(3)),
        "p.shards.json",
    ]


POINTS = {
    "convert.after_run": 0,
    "convert.before_spill": 0,
    "convert.after_shard": 1,
    "convert.before_account": 1,
    "convert.before_commit": 2,
    "convert.after_commit": 2,
    "convert.after_move": 2,
    "convert.before_manifest": 2,
    "convert.after_publish": 2,
}


# A new folder appears by one rename, so no shard is moved into it.
CASES = [(point, True) for point in POINTS] + [
    (point, False)
    for point in POINTS
    if point not in {"convert.after_move", "convert.before_manifest"}
]


@pytest.mark.parametrize(("point", "exists"), CASES)
def test_a_killed_step_is_taken_again(roots, inputs, tmp_path, point, exists):
    output = roots.outputs[0] / "new"
    if exists:
        convert(output, fixed_samples(9), 9, "p", schema=FIXED)
    name = plan_conversion(request(), roots, max_units=2)["plan"]
    steps = [
        lambda: [scatter_files(roots, name, unit) for unit in range(2)],
        lambda: [gather_shards(roots, name, unit) for unit in range(2)],
        lambda: publish_conversion(roots, name),
    ]
    for number, step in enumerate(steps):
        if number == POINTS[point]:
            process = os.fork()
            if process == 0:
                with suppress(BaseException):
                    os.environ[faults.VARIABLE] = f"{point}:kill"
                    faults._plan.cache_clear()
                    step()
                os._exit(1)
            status = os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
            assert status == -signal.SIGKILL
        step()
    assert names_in(roots.work / "convert" / name) == [
        "plan.json",
        *(f"unit-{unit:05d}.json" for unit in range(2)),
    ]
    convert_files(str(inputs / "raw-*"), tmp_path / "local", 7, "p", seed=3)
    found = {name: data for name, data in contents(output).items() if name != ".p.lock"}
    assert found == contents(tmp_path / "local")


@pytest.mark.parametrize(
    ("step", "inner"), [(scatter_files, "add_file"), (gather_shards, "iter_sorted")]
)
def test_a_step_that_was_killed_is_told_of_by_the_next_try(
    roots, inputs, monkeypatch, caplog, step, inner
):
    name = plan_conversion(request(), roots, max_units=1)["plan"]
    if step is gather_shards:
        scatter_files(roots, name, 0)

    def killed():
        monkeypatch.setattr(
            f"trainfeed.conversion.steps.{inner}", lambda *_, **__: os.kill(os.getpid(), 9)
        )
        step(roots, name, 0)

    assert in_a_fork(killed) == -signal.SIGKILL
    step(roots, name, 0)
    work = step.__name__.partition("_")[0]
    assert f"the last attempt at {work}-0 of conversion {name}, begun at" in caplog.text
    assert "was killed" in caplog.text
    assert not list((roots.work / "convert" / name).glob("*.attempt.json"))


def test_damage_between_the_steps_is_noticed(roots, inputs):
    name = plan_conversion(request(), roots, max_units=1)["plan"]
    scatter_files(roots, name, 0)
    path = roots.work / "convert" / name / "unit-00000.spill"
    whole = path.read_bytes()
    for place in range(0, len(whole), 997):
        data = bytearray(whole)
        data[place] ^= 0x10
        path.write_bytes(data)
        with pytest.raises(FormatError):
            gather_shards(roots, name, 0)
    for length in (1, 30_000, len(whole) - 1):
        path.write_bytes(whole[:length])
        with pytest.raises(FormatError):
            gather_shards(roots, name, 0)
    path.write_bytes(whole)
    assert gather_shards(roots, name, 0)["verdict"] == "built"


def test_a_file_that_changes_after_the_plan_is_refused(roots, inputs):
    name = plan_conversion(request(), roots, max_units=1)["plan"]
    with (inputs / "raw-00002-of-00004").open("ab") as file:
        file.write(b"x")
    with pytest.raises(FormatError, match="changed after the plan"):
        scatter_files(roots, name, 0)


def test_a_missing_unit_is_named(roots, inputs):
    planned = plan_conversion(request(), roots, max_units=2)
    for unit in range(2):
        scatter_files(roots, planned["plan"], unit)
    gather_shards(roots, planned["plan"], 0)
    with pytest.raises(NotFoundError, match="unit-00001"):
        publish_conversion(roots, planned["plan"])


def test_a_unit_whose_shards_are_gone_is_made_again(roots, inputs):
    planned = plan_conversion(request(), roots, max_units=2)
    name = planned["plan"]
    for step in (scatter_files, gather_shards):
        for unit in range(2):
            step(roots, name, unit)
    (staging,) = roots.outputs[0].glob(".*.tmp")
    shutil.rmtree(staging / "unit-00001")
    with pytest.raises(NotFoundError, match="clear the step that writes it"):
        publish_conversion(roots, name)
    verdicts = [gather_shards(roots, name, unit)["verdict"] for unit in range(2)]
    assert verdicts == ["adopted", "built"]
    assert publish_conversion(roots, name)["verdict"] == "published"


def until(monkeypatch, point, act):
    """Run a function once, when the conversion next reaches a point."""
    reached = []

    def at(name):
        if name == point and not reached:
            reached.append(name)
            act()

    monkeypatch.setattr(faults, "point", at)
    return reached


@pytest.fixture
def scattered(roots, inputs):
    """A conversion of one unit whose spill file is written."""
    name = plan_conversion(request(), roots, max_units=1)["plan"]
    scatter_files(roots, name, 0)
    return name


def expected(inputs, tmp_path):
    convert_files(inputs, tmp_path / "whole", 7, "p", seed=3)
    return contents(tmp_path / "whole")


def test_an_attempt_that_dies_while_it_writes_does_not_touch_what_another_one_publishes(
    roots, inputs, tmp_path, scattered, monkeypatch
):
    write = _stages.write_shards

    def written_in_part(samples, folder, wanted, **options):
        yield next(write(samples, folder, wanted, **options))
        (folder / wanted[1][0]).write_bytes(b"half a shard")
        os.kill(os.getpid(), signal.SIGKILL)

    def second():
        monkeypatch.setattr(_stages, "write_shards", written_in_part)
        gather_shards(roots, scattered, 0)

    reached = until(
        monkeypatch,
        "convert.before_account",
        lambda: deaths.append(in_a_fork(second)),
    )
    deaths = []
    assert gather_shards(roots, scattered, 0)["verdict"] == "built"
    assert (len(reached), deaths) == (1, [-signal.SIGKILL])
    assert publish_conversion(roots, scattered)["verdict"] == "published"
    assert contents(roots.outputs[0] / "new") == expected(inputs, tmp_path)
    assert names_in(roots.outputs[0]) == ["new"]
    assert names_in(roots.outputs[0] / "new") == sorted(contents(tmp_path / "whole"))


@pytest.mark.parametrize("point", ["convert.after_shard", "convert.before_account"])
def test_an_attempt_that_goes_on_after_another_one_was_published_changes_nothing(
    roots, inputs, tmp_path, scattered, monkeypatch, point
):
    def other():
        assert gather_shards(roots, scattered, 0)["verdict"] == "built"
        assert publish_conversion(roots, scattered)["verdict"] == "published"

    assert until(monkeypatch, point, other) == []
    assert gather_shards(roots, scattered, 0)["verdict"] == "adopted"
    assert publish_conversion(roots, scattered)["verdict"] == "adopted"
    assert contents(roots.outputs[0] / "new") == expected(inputs, tmp_path)
    assert names_in(roots.outputs[0]) == ["new"]
    assert names_in(roots.outputs[0] / "new") == sorted(contents(tmp_path / "whole"))


def test_of_two_attempts_that_write_the_same_shards_one_is_kept(
    roots, inputs, tmp_path, scattered, monkeypatch
):
    until(monkeypatch, "convert.before_account", lambda: gather_shards(roots, scattered, 0))
    gather_shards(roots, scattered, 0)
    (staging,) = roots.outputs[0].glob(".*.tmp")
    assert names_in(staging) == ["unit-00000"]
    publish_conversion(roots, scattered)
    assert contents(roots.outputs[0] / "new") == expected(inputs, tmp_path)


def test_two_attempts_that_write_different_shards_are_an_error(roots, scattered, monkeypatch):
    def other():
        gather_shards(roots, scattered, 0)
        path = roots.work / "convert" / scattered / "unit-00000.json"
        resealed(path, lambda account: account["shards"][0].update(xxh3_128="0" * 32))

    until(monkeypatch, "convert.before_account", other)
    with pytest.raises(NonDeterminismError, match="wrote different shards"):
        gather_shards(roots, scattered, 0)


@pytest.mark.parametrize("left", [0, 100])
def test_a_shard_that_is_cut_before_its_publication_is_named_and_made_again(
    roots, inputs, tmp_path, scattered, left
):
    gather_shards(roots, scattered, 0)
    (path,) = roots.outputs[0].glob(".*.tmp/unit-00000/p-00003-*")
    os.truncate(path, left)
    with pytest.raises(FormatError, match=f"{path.name}: expected .* got {left}"):
        publish_conversion(roots, scattered)
    assert not (roots.outputs[0] / "new").exists()
    assert gather_shards(roots, scattered, 0)["verdict"] == "built"
    assert publish_conversion(roots, scattered)["verdict"] == "published"
    assert contents(roots.outputs[0] / "new") == expected(inputs, tmp_path)


@pytest.mark.parametrize(
    "path", ["../secret", "/etc/hosts", "a/../../x", "", " ", "link/x", "/etc/*", "x,/etc/hosts"]
)
def test_inputs_outside_of_the_roots_are_refused(roots, tmp_path, path):
    (tmp_path / "secret").mkdir()
    (tmp_path / "secret" / "x").write_bytes(b"")
    (roots.inputs[0] / "x").write_bytes(b"")
    (roots.inputs[0] / "link").symlink_to(tmp_path / "secret")
    with pytest.raises(ConfigError):
        plan_conversion(request(input=path), roots)


@pytest.mark.parametrize("path", ["../elsewhere", "/tmp/elsewhere", "link/x", ""])
def test_outputs_outside_of_the_roots_are_refused(roots, inputs, tmp_path, path):
    (roots.outputs[0] / "link").symlink_to(tmp_path)
    with pytest.raises(ConfigError):
        plan_conversion(request(output=path), roots)


def test_a_plan_that_leads_outside_is_refused(roots, inputs):
    name = plan_conversion(request(), roots)["plan"]
    path = roots.work / "convert" / name / "plan.json"
    whole = path.read_bytes()

    def led(value):
        value["files"] = [["/etc/hosts", *file[1:]] for file in value["files"]]

    for change in (led, lambda value: value.update(output="/tmp/new")):
        path.write_bytes(whole)
        resealed(path, change)
        with pytest.raises(ConfigError, match="expected a path below"):
            scatter_files(roots, name, 0)


def resealed(path, change):
    value = json.loads(path.read_bytes())
    del value["digest"]
    change(value)
    path.write_bytes(canonical_json.seal(canonical_json.dumps(value).removesuffix(b"}")))


def damaged(data):
    """Every form of the content with a changed byte, a few cut ones, and another file."""
    for place in range(0, len(data), 3):
        yield data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :]
    yield from (data[:-9], data[: len(data) // 2], b"", b"[]", b"{}")


def test_no_changed_byte_of_a_plan_is_believed(roots, inputs):
    name = plan_conversion(request(), roots)["plan"]
    path = roots.work / "convert" / name / "plan.json"
    for data in damaged(path.read_bytes()):
        path.write_bytes(data)
        with pytest.raises(FormatError, match="run the conversion again"):
            scatter_files(roots, name, 0)


def test_the_plan_of_another_conversion_is_refused_in_its_place(roots, inputs):
    names = [plan_conversion(request(seed=seed), roots)["plan"] for seed in (1, 2)]
    here, there = (roots.work / "convert" / name / "plan.json" for name in names)
    here.write_bytes(there.read_bytes())
    with pytest.raises(FormatError, match=names[0]):
        scatter_files(roots, names[0], 0)


def test_no_changed_byte_of_an_account_is_published(roots, scattered):
    """A changed digest or number of samples would stand in the manifest of the set."""
    gather_shards(roots, scattered, 0)
    path = roots.work / "convert" / scattered / "unit-00000.json"
    for data in damaged(path.read_bytes()):
        path.write_bytes(data)
        with pytest.raises(FormatError, match="clear the step"):
            publish_conversion(roots, scattered)
    assert not (roots.outputs[0] / "new").exists()


def test_the_account_of_another_unit_is_refused_in_its_place(roots, inputs):
    planned = plan_conversion(request(), roots, max_units=2)
    name = planned["plan"]
    for step in (scatter_files, gather_shards):
        for unit in range(2):
            step(roots, name, unit)
    here, there = (roots.work / "convert" / name / f"unit-{unit:05d}.json" for unit in range(2))
    there.write_bytes(here.read_bytes())
    with pytest.raises(FormatError, match="unit: expected 1, got 0"):
        publish_conversion(roots, name)
