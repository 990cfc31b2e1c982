"""HDFS as a service: usable when both nodes answer, and back after SIGKILL with its files."""

import hdfs as webhdfs
import pytest

from services.hdfs import Hdfs


@pytest.fixture
def hdfs(tmp_path):
    hdfs = Hdfs(tmp_path)
    hdfs.install()
    hdfs.start()
    hdfs.wait()
    yield hdfs
    hdfs.stop()
    assert not any(hdfs.status().values())


def test_killed_nodes_come_back_with_their_files(hdfs):
    url = f"http://127.0.0.1:{hdfs.ports['namenode_http']}"
    client = webhdfs.InsecureClient(url, user="hdfs")
    client.write("/landed", data=b"before")

    hdfs.kill("datanode")
    hdfs.kill("namenode")
    assert hdfs.status() == {"namenode": None, "datanode": None}
    hdfs.start()
    hdfs.wait()
    client.write("/later", data=b"after")

    with client.read("/landed") as landed:
        assert landed.read() == b"before"
    assert client.list("/") == ["landed", "later"]
