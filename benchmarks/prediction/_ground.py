"""A promoted model of real digits, and a service of it on the loopback, over TLS with a token."""

from __future__ import annotations

import datetime
import os
import shutil
import ssl
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from examples.digits.images import read_digits
from examples.digits.writer import write_days
from trainfeed.core.config import Environment
from trainfeed.files.stores import Location
from trainfeed.pipeline.local import build
from trainfeed.serving.server import new_token
from trainfeed.specification import load_spec
from trainfeed.training.launch import train
from trainfeed.training.models import ModelsFolder
from trainfeed.training.promotion import evaluate, promote
from trainfeed.versions import init_root

__all__ = ["Ground", "Served"]

ROOT = Path(__file__).parents[2]
DAYS = ("2024-01-01", "2024-01-02")
# In the place of a model that takes long: each batch takes so many seconds.
_FAST = "        logits = _images(samples) @ weights\n"
_SLOW = "        __import__('threading').Event().wait({seconds})\n"


@dataclass(frozen=True)
class Served:
    """The address of a service, how its clients trust it, and its processes."""

    port: int
    certificate: Path
    token: str
    process: subprocess.Popen[bytes]

    def trust(self) -> ssl.SSLContext:
        """Return the TLS settings of a client."""
        return ssl.create_default_context(cafile=str(self.certificate))

    def rss_bytes(self) -> int:
        """Return the resident memory of the web process."""
        pages = Path(f"/proc/{self.process.pid}/statm").read_text().split()[1]
        return int(pages) * os.sysconf("SC_PAGE_SIZE")

    def cpu_seconds(self) -> tuple[float, float]:
        """Return the processor time of the web process, and of the process that predicts."""
        tasks = Path(f"/proc/{self.process.pid}/task").iterdir()
        children = [pid for task in tasks for pid in (task / "children").read_text().split()]
        return _cpu_seconds(self.process.pid), sum(_cpu_seconds(int(pid)) for pid in children)


def _cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


class Ground:
    """A folder with two days of digits, and two versions of their model, the first promoted.

    Args:
        folder: An empty folder.
        batch_seconds: Seconds that the function that predicts waits for each batch.
    """

    def __init__(self, folder: Path, batch_seconds: float = 0.0) -> None:
        self.folder = folder
        self.datasets = folder / "datasets"
        shutil.copytree(ROOT / "include/datasets/digits", self.datasets / "digits")
        if batch_seconds:
            self._slow_down(batch_seconds)
        init_root(folder / "root")
        logs = Location.parse(str(folder / "logs" / "digits"))
        write_days(read_digits(ROOT / "data/scikit-learn"), logs, folder / "ledger.sqlite")
        self.lines = self._lines()
        self._train()
        self.model = ModelsFolder(folder / "root").known("digits")

    def _slow_down(self, seconds: float) -> None:
        path = self.datasets / "digits" / "train.py"
        text = path.read_text()
        if _FAST not in text:
            raise SystemExit(f"expected {_FAST!r} in {path}")
        path.write_text(text.replace(_FAST, _SLOW.format(seconds=seconds) + _FAST))

    def _lines(self) -> list[str]:
        """Return sound lines without their labels."""
        log = self.folder / "logs/digits/dt=2024-01-01/part-00000.txt"
        lines = [line.split(b"\t") for line in log.read_bytes().splitlines()]
        sound = (line[0] for line in lines if len(line) == 2 and len(line[0]) == 88)
        return [line.decode() for line in sound if line.isascii()]

    def _train(self) -> None:
        places = {name: str(self.folder / name) for name in ("root", "landing", "work")}
        logs = {"hdfs_default": str(self.folder)}
        env = Environment(**places, kafka={}, datasets=self.datasets, logs=logs)
        path = self.datasets / "digits" / "dataset.yaml"
        path.write_text(path.read_text().replace("window: 5", "window: 1"))
        spec = load_spec(self.datasets / "digits")
        for day in DAYS:
            interval = spec.schedule_model().interval_named(day)
            build(spec, interval, env)
            judged = evaluate(spec, env, interval.name, train(spec, env, interval)["job"])
            if day == DAYS[0]:
                promote(spec, env, judged["version"], "first", request="first")

    @contextmanager
    def service(self, *options: str) -> Iterator[Served]:
        """Serve ``digits@prod``; the process is ended at the end of the block."""
        home = self.folder / f"service-{time.monotonic_ns()}"
        home.mkdir()
        certificate, key = _certified(home)
        token, port_file = (
            new_token(home / "tokens.txt", "benchmark", scopes="predict,metrics"),
            home / "port",
        )
        command = [sys.executable, "-m", "trainfeed", "serve", "digits@prod"]
        command += ["--tokens", str(home / "tokens.txt"), "--port", "0"]
        command += ["--port-file", str(port_file)]
        command += ["--certificate", str(certificate), "--key", str(key), *options]
        environ = {
            "PATH": os.environ["PATH"],
            "PYTHONPATH": f"{ROOT}:{ROOT / 'include'}",
            "TRAINFEED_ROOT": str(self.folder / "root"),
            "TRAINFEED_DATASETS": str(self.datasets),
        }
        with (
            (home / "log").open("wb") as log,
            subprocess.Popen(command, env=environ, stderr=log) as process,
        ):
            try:
                yield Served(_port(port_file, process, home / "log"), certificate, token, process)
            finally:
                process.terminate()
                process.wait(60)


def _port(port_file: Path, process: subprocess.Popen[bytes], log: Path) -> int:
    while not port_file.exists():
        if process.poll() is not None:
            raise SystemExit(log.read_text())
        time.sleep(0.05)
    return int(port_file.read_text())


def _certified(folder: Path) -> tuple[Path, Path]:
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")])
    now = datetime.datetime.now(datetime.UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), critical=False)
        .sign(key, hashes.SHA256())
    )
    paths = folder / "cert.pem", folder / "key.pem"
    paths[0].write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    paths[1].touch(mode=0o600)
    kind, plain = serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    paths[1].write_bytes(key.private_bytes(serialization.Encoding.PEM, kind, plain))
    return paths
