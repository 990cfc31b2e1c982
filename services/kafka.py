"""Kafka: one KRaft node, broker and controller in one process."""

from __future__ import annotations

import shutil
import socket
from collections.abc import Mapping
from pathlib import Path
from string import Template
from types import MappingProxyType

from services._home import default_home, remembered_ports
from services._java import JavaProgram
from services._process import Daemon, run_tool, stop_daemons, wait_until

__all__ = ["Kafka"]

_CONFIG = Path(__file__).parent / "config" / "kafka"
_CLUSTER_ID = "dHJhaW5mZWVkLXRlc3RzMQ"  # any 16 bytes in base64; KRaft wants one to format with
_STARTED = b"Kafka Server started"


class Kafka:
    """A Kafka broker without authentication.

    Args:
        home: State directory of the services; the broker's is ``<home>/kafka``.
        ports: ``broker`` and ``controller``; chosen and remembered when missing.
    """

    name = "kafka"
    PORTS: Mapping[str, int] = MappingProxyType({"broker": 19092, "controller": 19093})

    def __init__(self, home: Path | None = None, *, ports: Mapping[str, int] | None = None) -> None:
        self.home = (home or default_home()).resolve() / self.name
        self._ports = ports
        self._java = JavaProgram(self.name, _CONFIG / "pom.xml")
        self._broker = Daemon("kafka", self.home)

    @property
    def ports(self) -> Mapping[str, int]:
        """Port by name, the same at every start of this home."""
        return self._ports or remembered_ports(self.home, self.PORTS)

    @property
    def bootstrap_servers(self) -> str:
        """What a client connects to, ``host:port``."""
        return f"127.0.0.1:{self.ports['broker']}"

    def unavailable(self) -> str | None:
        """Say why Kafka cannot run here, or None."""
        return self._java.unavailable()

    def install(self) -> None:
        """Fetch Java, Maven and the broker's jars as far as they are missing."""
        self._java.install()

    def start(self, *, fresh: bool = False) -> None:
        """Start the broker unless it runs; the first start formats its storage."""
        if fresh:
            self.stop()
            shutil.rmtree(self._data, ignore_errors=True)
        if self._broker.pid() is not None:
            return
        properties = self._write_properties()
        if not self._formatted.exists():
            self._format(properties)
        self._broker.spawn(
            self._java.command("kafka.Kafka", str(properties), heap_mb=512, flags=_logging())
        )

    def wait(self, timeout_s: float = 60.0) -> None:
        """Wait until the broker says that it has started."""
        wait_until(self._usable, [self._broker], what="kafka", timeout_s=timeout_s)

    def status(self) -> dict[str, int | None]:
        """Pid of the broker."""
        return {self._broker.name: self._broker.pid()}

    def stop(self) -> None:
        """End the broker."""
        stop_daemons([self._broker])

    def kill(self, daemon: str) -> None:
        """End the broker with SIGKILL; ``daemon`` is ``kafka``."""
        {"kafka": self._broker}[daemon].kill()

    def exports(self) -> dict[str, str]:
        """Where tests find the broker."""
        return {"TEST_KAFKA_BOOTSTRAP_SERVERS": self.bootstrap_servers}

    @property
    def _data(self) -> Path:
        return self.home / "data"

    @property
    def _formatted(self) -> Path:
        return self._data / ".formatted"

    def _usable(self) -> bool:
        # The log is that of this start, and the broker writes this once clients may come.
        if _STARTED not in self._broker.log_file.read_bytes():
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
        shutil.rmtree(self._data, ignore_errors=True)  # what an interrupted try left
        command = self._java.command(
            "kafka.tools.StorageTool",
            *("format", "-t", _CLUSTER_ID, "-c", str(properties)),
            heap_mb=128,
            flags=_logging(),
        )
        run_tool(command, what="formatting the storage of kafka")
        self._formatted.touch()


def _logging() -> list[str]:
    return [
        f"-Dlog4j2.configurationFile={_CONFIG / 'log4j2.properties'}",
        "-Dlog4j2.disableJmx=true",
    ]
