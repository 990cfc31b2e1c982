"""Kafka: one KRaft node, broker and controller in one process."""

from __future__ import annotations

import socket
from collections.abc import Mapping
from pathlib import Path
from string import Template
from types import MappingProxyType

from services._java import JavaService

_CONFIG = Path(__file__).parent / "config" / "kafka"
_CLUSTER_ID = "dHJhaW5mZWVkLXRlc3RzMQ"  # any 16 bytes in base64; KRaft wants one to format with
_STARTED = b"Kafka Server started"


class Kafka(JavaService):
    """A Kafka broker without authentication; its ports are ``broker`` and ``controller``."""

    name = "kafka"
    PORTS: Mapping[str, int] = MappingProxyType({"broker": 19092, "controller": 19093})
    _POM = _CONFIG / "pom.xml"
    _DAEMONS = ("kafka",)

    @property
    def bootstrap_servers(self) -> str:
        """Address for clients, ``host:port``."""
        return f"127.0.0.1:{self.ports['broker']}"

    def exports(self) -> dict[str, str]:
        """Return the variable by which tests find the broker."""
        return {"TEST_KAFKA_BOOTSTRAP_SERVERS": self.bootstrap_servers}

    def _spawn(self) -> None:
        broker = self._daemons["kafka"]
        if broker.pid() is not None:
            return
        properties = self._write_properties()
        if not self._formatted.exists():
            self._format(properties)
        broker.spawn(
            self._java.command("kafka.Kafka", str(properties), heap_mb=512, flags=_logging())
        )

    def _usable(self) -> bool:
        # The log has only this start, and the broker writes this line when clients can connect.
        if _STARTED not in self._daemons["kafka"].log_file.read_bytes():
            return False
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", self.ports["broker"])) == 0

    def _write_properties(self) -> Path:
        template = Template((_CONFIG / "server.properties").read_text())
        properties = self.home / "server.properties"
        properties.parent.mkdir(parents=True, exist_ok=True)
        properties.write_text(template.substitute(self.ports, data=self._data))
        return properties

    def _format(self, properties: Path) -> None:
        command = self._java.command(
            "kafka.tools.StorageTool",
            *("format", "-t", _CLUSTER_ID, "-c", str(properties)),
            heap_mb=128,
            flags=_logging(),
        )
        self._format_with(command, what="formatting the storage of kafka")


def _logging() -> list[str]:
    return [
        f"-Dlog4j2.configurationFile={_CONFIG / 'log4j2.properties'}",
        "-Dlog4j2.disableJmx=true",
    ]
