"""Java programs from Maven artifacts: their jars, and the command that starts them."""

from __future__ import annotations

import hashlib
import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path

from services._home import default_home
from services._packages import install_packages, packages_unavailable
from services._process import InstallError, ServiceError, run_tool

_JAVA = {"java": "openjdk-17-jre-headless"}
_MAVEN = {"mvn": "maven"}
_RESOLVE_S = 600.0
_FLAGS = (
    "-XX:TieredStopAtLevel=1",  # these processes live for minutes: quick start over peak speed
    "-XX:+UseSerialGC",
    "-XX:-UsePerfData",
    "-Djava.net.preferIPv4Stack=true",
)


class JavaProgram:
    """The jars that a pom names, resolved once for all homes.

    Args:
        name: Part of the folder's name.
        pom: The pom whose runtime dependencies are the program.
        resources: Folder behind the jars on the class path.
    """

    def __init__(self, name: str, pom: Path, *, resources: Path | None = None) -> None:
        self._pom = pom
        self._resources = resources
        digest = hashlib.sha256(pom.read_bytes()).hexdigest()
        # The folder appears complete or not at all, so its existence is the mark of success.
        self._jars = default_home() / "jars" / f"{name}-{digest[:16]}"

    def unavailable(self) -> str | None:
        """Return what is missing to run the program here, or None."""
        return packages_unavailable(_JAVA if self._jars.is_dir() else {**_JAVA, **_MAVEN})

    def install(self) -> None:
        """Resolve the jars unless the same pom was resolved before.

        Raises:
            InstallError: No Java, no Maven, or an artifact cannot be fetched.
        """
        install_packages(_JAVA)
        if self._jars.is_dir():
            return
        install_packages(_MAVEN)
        self._jars.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=self._jars.parent) as folder:
            self._resolve(Path(folder) / "jars")

    def jars(self) -> list[Path]:
        """Return the jars, in the order of the class path."""
        return sorted(self._jars.glob("*.jar"))

    def command(self, main: str, *args: str, heap_mb: int, flags: Sequence[str] = ()) -> list[str]:
        """Return the command line that runs the class ``main``."""
        path = self.jars()
        if self._resources is not None:
            path.append(self._resources)
        flags = [f"-Xmx{heap_mb}m", *_FLAGS, *flags]
        return ["java", *flags, "-cp", ":".join(map(str, path)), main, *args]

    def _resolve(self, target: Path) -> None:
        goal = ["dependency:copy-dependencies", "-DincludeScope=runtime"]
        command = ["mvn", "-B", "-q", "-ntp", "-f", str(self._pom), *goal]
        try:
            run_tool(
                [*command, f"-DoutputDirectory={target}"],
                what=f"resolving {self._pom}",
                timeout_s=_RESOLVE_S,
            )
        except ServiceError as error:
            raise InstallError(str(error)) from error
        if not self._jars.is_dir():  # another process may have been quicker
            shutil.move(target, self._jars)
