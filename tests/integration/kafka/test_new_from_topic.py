"""``trainfeed new --from TOPIC`` on a real broker: the day of its records is built at once."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from trainfeed.cli import main
from trainfeed.versions import DatasetFolder, Version, init_root


def test_the_records_of_a_topic_become_a_data_set_that_builds(
    broker, tmp_path, monkeypatch, capsys
):
    day = datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0) - timedelta(days=2)
    name = broker.create(partitions=2)
    for partition in range(2):
        numbers = range(partition, 90, 2)
        rows = [{"userId": n, "price": n / 3 if n % 9 else None, "v": [n, 1]} for n in numbers]
        values = [*(json.dumps(row).encode() for row in rows), b"{broken"]
        broker.produce(
            name,
            [
                {"value": value, "timestamp": int((day.timestamp() + n) * 1000)}
                for n, value in enumerate(values)
            ],
            partition,
        )
        # A later record, so that the day is over for the topic, too.
        later = int((day + timedelta(days=1, hours=1)).timestamp() * 1000)
        last = {"value": b'{"userId": 1, "v": [1, 1]}', "timestamp": later}
        broker.produce(name, [last], partition)
    monkeypatch.chdir(tmp_path)
    for variable, value in {
        "DATA": tmp_path / "data", "DATASETS": tmp_path / "sets", "KAFKA": broker.servers,
    }.items():  # fmt: skip
        monkeypatch.setenv(f"TRAINFEED_{variable}", str(value))
    init_root(tmp_path / "data" / "root")

    def run(*arguments):
        monkeypatch.setattr("sys.argv", ["trainfeed", *arguments])
        with pytest.raises(SystemExit) as ended:
            main()
        assert not ended.value.code, capsys.readouterr()
        return capsys.readouterr().out

    assert "3 fields" in run("new", "visits", "--from", name)
    interval = f"{day:%Y-%m-%d}"
    run("build", "visits", "--interval", interval)
    folder = DatasetFolder(Path(tmp_path / "data" / "root"), "visits")
    version = Version.resolve(folder, interval)
    assert (version.manifest.num_samples(), version.manifest.quarantine["records"]) == (90, 2)
    assert [str(field) for field in version.schema] == ["int64", "float64", "int64 (2)"]
