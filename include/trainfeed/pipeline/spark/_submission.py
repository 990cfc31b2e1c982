"""The command line of ``spark-submit``, and the process that runs it.

Options stand in a file that only this account can read: they may hold secrets, and every account of
a machine sees the arguments of processes.
"""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from trainfeed.core.config import executor_environ, spark_environ
from trainfeed.core.process_ties import program, tie_to_parent
from trainfeed.pipeline.spark.cluster import SparkCluster
from trainfeed.pipeline.spark.shipment import Shipment
from trainfeed.specification import DatasetSpec

logger = logging.getLogger(__name__)

_PROGRAM: Final = "trainfeed.pipeline.spark._submission"
_APPLICATION: Final = Path(__file__).with_name("_driver.py")
_OPTIONS: Final = "options.properties"
_GRACE_S: Final = 10.0
_MAX_LINE_BYTES: Final = 4096
_TAIL_LINES: Final = 40
_MAX_LOGGED_LINES: Final = 10_000
_MIB: Final = 1 << 20
# What a Python worker and the process of its function take besides the samples.
_TASK_BYTES: Final = 512 * _MIB
# Without these, shards would not be those of the plan, or tasks not bounded; no setting replaces
# them.
_FIXED: Final = {
    "spark.sql.adaptive.enabled": "false",
    # A row has thousands of samples: with several in a batch, a task would take more memory.
    "spark.sql.execution.arrow.maxRecordsPerBatch": "1",
    "spark.sql.execution.arrow.useLargeVarTypes": "false",
    "spark.sql.session.timeZone": "UTC",
}
_DEFAULTS: Final = {
    "spark.log.level": "WARN",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    # What goes through the shuffle is compressed already.
    "spark.shuffle.compress": "false",
    # Otherwise tasks of data frames run in other Python workers than the first job: Spark starts
    # these as well, and each imports every module again.
    "spark.sql.execution.pyspark.udf.simplifiedTraceback.enabled": "false",
}
# Java only moves rows, so its best compiler costs a start more time than it saves. Of a cluster,
# the options of Java are those of its administrators.
_LOCAL_JAVA: Final = {"spark.driver.defaultJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"}
_LOOPBACK: Final = {"spark.driver.bindAddress": "127.0.0.1", "spark.driver.host": "127.0.0.1"}


def options_of(cluster: SparkCluster, spec: DatasetSpec) -> dict[str, str]:
    """Return the options of an application: those of the cluster, and what they leave open.

    Args:
        cluster: The cluster.
        spec: The data set, for the memory of a task.
    """
    python = cluster.interpreter()
    interpreter = {} if python is None else {
        "spark.pyspark.python": python, "spark.pyspark.driver.python": python
    }  # fmt: skip
    # Memory beside that of Java: each core of an executor has one task at a time.
    task_mib = (spec.resources.memory_bytes + _TASK_BYTES) // _MIB
    return {
        **_DEFAULTS,
        **({**_LOOPBACK, **_LOCAL_JAVA} if cluster.is_local else {}),
        **interpreter,
        "spark.executor.memoryOverhead": f"{cluster.executor_cores * task_mib}m",
        **{f"spark.executorEnv.{name}": value for name, value in executor_environ().items()},
        **cluster.conf,
        **_FIXED,
    }


def command_of(
    cluster: SparkCluster, name: str, shipment: Shipment, options: Path, job_uri: str
) -> list[str]:
    """Return the command that submits an application.

    Args:
        cluster: The cluster.
        name: Name of the application.
        shipment: The archives for the executors.
        options: The file of ``options_of``.
        job_uri: The job of the application.
    """
    return [
        cluster.program(),
        "--master", cluster.master,
        "--deploy-mode", cluster.deploy_mode,
        "--name", name,
        "--properties-file", str(options),
        "--load-spark-defaults",
        "--py-files", str(shipment.package),
        "--files", str(shipment.folder),
        str(_APPLICATION),
        job_uri,
    ]  # fmt: skip


def write_options(options: Mapping[str, str], folder: Path) -> Path:
    """Write options to a file that only this account can read, and return its path."""
    path = folder / _OPTIONS
    text = "".join(f"{_escaped(name)}={_escaped(value)}\n" for name, value in options.items())
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(text.encode("latin-1"))
    return path


def _escaped(text: str) -> str:
    """Write text as files of Java properties do."""
    return "".join(
        char if char.isascii() and (char.isalnum() or char in "._-/,[]*") else _unit_escapes(char)
        for char in text
    )


def _unit_escapes(char: str) -> str:
    data = char.encode("utf-16-be")
    return "".join(f"\\u{data[i]:02x}{data[i + 1]:02x}" for i in range(0, len(data), 2))


class Submission:
    """A running ``spark-submit``; it ends with this process, and with it driver and application.

    Args:
        command: The command.
        python: Interpreter of the driver, by which ``spark-submit`` finds its own home; None leaves
            it to Spark.
        with_keys: Whether it gets keys of object stores.
    """

    def __init__(
        self, command: Sequence[str], python: str | None = None, *, with_keys: bool = False
    ) -> None:
        own = {} if python is None else {"PYSPARK_PYTHON": python, "PYSPARK_DRIVER_PYTHON": python}
        # The kernel ends it with the thread that starts it: that thread waits for it below.
        self._process = subprocess.Popen(  # noqa: S603 - our own interpreter and module
            program(_PROGRAM, [os.getpid(), *command]),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env={**spark_environ(with_keys=with_keys), **own},
            process_group=0,
        )
        self._tail: deque[str] = deque(maxlen=_TAIL_LINES)
        self._is_cancelled = threading.Event()

    @property
    def tail(self) -> str:
        """The last lines of the output."""
        return "\n".join(self._tail)

    @property
    def is_cancelled(self) -> bool:
        """Whether ``cancel`` was called."""
        return self._is_cancelled.is_set()

    def wait(self, on_line: Callable[[str], object] = str) -> int:
        """Log the output until the process ends; return the exit status.

        Args:
            on_line: Called with every line of the output.
        """
        output = self._process.stdout
        assert output is not None  # noqa: S101 - for the type checker
        try:
            lines = 0
            while data := output.readline(_MAX_LINE_BYTES):
                line = data.decode(errors="replace").rstrip()
                self._tail.append(line)
                on_line(line)
                lines += 1
                if lines <= _MAX_LOGGED_LINES:
                    logger.info("spark: %s", line)
            return self._process.wait()
        except BaseException:
            self.cancel()
            raise
        finally:
            output.close()

    def cancel(self) -> None:
        """End the application; safe to call twice, and from another thread than ``wait``."""
        self._is_cancelled.set()
        self._signal(signal.SIGTERM)
        try:
            self._process.wait(_GRACE_S)
        except subprocess.TimeoutExpired:
            self._signal(signal.SIGKILL)
            self._process.wait()

    def _signal(self, number: int) -> None:
        if self._process.poll() is None:
            with suppress(ProcessLookupError):
                os.killpg(self._process.pid, number)


def main(parent: int, *command: str) -> None:
    """Become ``spark-submit``, tied to the process that asked for it."""
    if tie_to_parent(parent):
        os.execv(command[0], command)  # noqa: S606 - the command of ``command_of``
