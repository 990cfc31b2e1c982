"""HDFS: one NameNode and one DataNode, reached by RPC and by WebHDFS."""

from __future__ import annotations

import http.client
import json
import os
from collections.abc import Mapping
from pathlib import Path
from string import Template
from types import MappingProxyType
from typing import Any
from urllib.parse import urlsplit

from services._java import JavaService
from services._process import run_tool

_CONFIG = Path(__file__).parent / "config" / "hdfs"
_SUPERUSER = "hdfs"
_PROBE = ".usable"
_NAMENODE = "org.apache.hadoop.hdfs.server.namenode.NameNode"
_DATANODE = "org.apache.hadoop.hdfs.server.datanode.DataNode"
_ADMIN = "org.apache.hadoop.hdfs.tools.DFSAdmin"
_LOGGING = (f"-Dlog4j.configuration=file:{_CONFIG / 'log4j.properties'}",)


class Hdfs(JavaService):
    """An HDFS with simple authentication; permissions are on, the superuser is ``hdfs``."""

    name = "hdfs"
    PORTS: Mapping[str, int] = MappingProxyType(
        {
            "namenode": 18020,
            "namenode_http": 19870,
            "datanode": 19866,
            "datanode_ipc": 19867,
            "datanode_http": 19864,
        }
    )
    _POM = _CONFIG / "pom.xml"
    _DAEMONS = ("namenode", "datanode")

    def admin(self, *arguments: str) -> str:
        """Run ``hdfs dfsadmin`` as the superuser; return its output.

        Raises:
            ServiceError: The command failed.
        """
        options = ["-conf", str(self._write_site()), *arguments]
        command = self._java.command(_ADMIN, *options, heap_mb=64, flags=_LOGGING)
        return run_tool(command, what=f"dfsadmin {' '.join(arguments)}", environ=_environ())

    def exports(self) -> dict[str, str]:
        """Return the variables by which tests find HDFS, and their account."""
        return {
            "TEST_HDFS_URI": f"hdfs://127.0.0.1:{self.ports['namenode']}",
            "TEST_WEBHDFS_URI": f"webhdfs://{_SUPERUSER}@127.0.0.1:{self.ports['namenode_http']}",
            "HADOOP_USER_NAME": _SUPERUSER,
        }

    @property
    def _resources(self) -> Path:
        return self.home / "resources"

    def _spawn(self) -> None:
        arguments = ["-conf", str(self._write_site())]
        if not self._formatted.exists():
            self._format(arguments)
        for daemon, main in zip(self._daemons.values(), (_NAMENODE, _DATANODE), strict=True):
            if daemon.pid() is None:
                command = self._java.command(main, *arguments, heap_mb=256, flags=_LOGGING)
                daemon.spawn(command, environ=_environ())

    def _usable(self) -> bool:
        try:
            state = self._bean("namenode_http", "NameNode", "FSNamesystemState")
            info = self._bean("namenode_http", "NameNode", "NameNodeInfo")
            # The NameNode counts a dead DataNode as live for 14 s, so the DataNode is asked, too.
            actors = self._bean("datanode_http", "DataNode", "DataNodeInfo")["BPServiceActorInfo"]
        except (OSError, http.client.HTTPException, ValueError, LookupError):
            return False  # not listening yet, or its metrics are not complete yet
        registered = all(actor["ActorState"] == "RUNNING" for actor in json.loads(actors))
        alive = state["NumLiveDataNodes"] >= 1 and state["NumStaleDataNodes"] == 0
        return bool(registered and alive and info["Safemode"] == "") and self._writes()

    def _writes(self) -> bool:
        """Return whether a DataNode accepts a file: right after its start it may refuse."""
        name = f"/webhdfs/v1/{_PROBE}?user.name={_SUPERUSER}&op="
        namenode = f"127.0.0.1:{self.ports['namenode_http']}"
        try:
            _, datanode = _ask(namenode, "PUT", f"{name}CREATE&overwrite=true")
            target = urlsplit(datanode)
            status, _ = _ask(target.netloc, "PUT", f"{target.path}?{target.query}", b"x")
            _ask(namenode, "DELETE", f"{name}DELETE")
        except (OSError, http.client.HTTPException):
            return False
        return status == http.client.CREATED

    def _bean(self, port: str, service: str, name: str) -> dict[str, Any]:
        server = http.client.HTTPConnection("127.0.0.1", self.ports[port], timeout=5)
        try:
            server.request("GET", f"/jmx?qry=Hadoop:service={service},name={name}")
            bean: dict[str, Any] = json.load(server.getresponse())["beans"][0]
        finally:
            server.close()
        return bean

    def _write_site(self) -> Path:
        template = Template((_CONFIG / "site.xml").read_text())
        site = self.home / "site.xml"
        # Both nodes refuse to start without these folders of web pages, which the jars do not have.
        for folder in ("hdfs", "datanode", "static"):
            (self._resources / "webapps" / folder).mkdir(parents=True, exist_ok=True)
        site.write_text(template.substitute(self.ports, data=self._data))
        return site

    def _format(self, arguments: list[str]) -> None:
        arguments = [*arguments, "-format", "-nonInteractive"]
        command = self._java.command(_NAMENODE, *arguments, heap_mb=128, flags=_LOGGING)
        self._format_with(command, what="formatting hdfs", environ=_environ())


def _ask(address: str, method: str, target: str, body: bytes = b"") -> tuple[int, str]:
    """Return status and header ``Location`` of the answer to a request."""
    server = http.client.HTTPConnection(address, timeout=5)
    try:
        server.request(method, target, body)
        answer = server.getresponse()
        answer.read()
        return answer.status, answer.getheader("Location", "")
    finally:
        server.close()


def _environ() -> dict[str, str]:
    return {**os.environ, "HADOOP_USER_NAME": _SUPERUSER}
