"""Translates the container of a pod into a process of this machine: command, variables, folder.

There is no image: programs come from the environment of this checkout. Nothing is mounted: in
commands and variables, the path of a mount is replaced by the folder behind it. No DNS resolves the
names of Services and pods: they are replaced by 127.0.0.1, where all pods run.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from services._home import REPOSITORY
from services._process import Daemon

# The only image of the node. A pod with another image waits, as it would with a misspelt name.
IMAGE: Final = f"trainfeed/trainer@sha256:{'7a' * 32}"
ADDRESS: Final = "127.0.0.1"
_REFERENCE: Final = re.compile(r"\$(\$|\((?P<name>[A-Za-z_.-][\w.-]*)\))")
_FIELD: Final = re.compile(r"(?P<path>[\w.]+)(?:\['(?P<key>[^']+)'\])?")
# End of a path inside a longer text: one of these characters follows, or the text ends.
_END: Final = r"(?=$|[/:;,\s\"'=])"

Fields = Mapping[str, Any]
Read = Callable[[str, str], dict[str, bytes]]


class UnsupportedPodError(ValueError):
    """A pod needs something that this node does not have; the pod's status shows the message."""


@dataclass(frozen=True)
class PodCommand:
    """The process that is started for a pod.

    Attributes:
        argv: Program and arguments.
        environ: All variables of the process.
        folder: Working directory.
    """

    argv: list[str]
    environ: dict[str, str]
    folder: Path


def command_of(
    pod: dict[str, Any], mounts: Mapping[str, Path], read: Read, services: Iterable[str], home: Path
) -> PodCommand:
    """Return the process to start for a pod, which has a single container.

    Args:
        pod: The pod, as JSON of the API.
        mounts: Folder on this machine, by its path in the container.
        read: Returns the data of a ConfigMap or Secret of the pod's namespace, by kind and name.
        services: Host names that stand for 127.0.0.1: Services and pods of the namespace.
        home: The pod's own folder.

    Raises:
        UnsupportedPodError: The pod needs an entry point of an image, or a variable of a kind that
            this node does not know.
    """
    container = pod["spec"]["containers"][0]
    words = [*(container.get("command") or []), *(container.get("args") or [])]
    if not container.get("command"):
        raise UnsupportedPodError("the node has no images: the container must have a command")
    own = _variables(container, pod, read)
    environ = {**_of_image(home), **own}
    place = _placer(mounts, services)
    folder = Path(place(container["workingDir"])) if "workingDir" in container else home
    argv = [place(_expanded(word, own)) for word in words]
    return PodCommand(argv, {name: place(value) for name, value in environ.items()}, folder)


def _of_image(home: Path) -> dict[str, str]:
    """The variables that an image would set; the node's own variables do not reach a pod."""
    programs = Path(sys.executable).parent
    return {
        "PATH": f"{programs}:{os.defpath}",
        "PYTHONPATH": str(REPOSITORY / "include"),
        "PYTHONUNBUFFERED": "1",
        "HOME": str(home),
        "LANG": "C.UTF-8",
    }


def _variables(container: Fields, pod: Fields, read: Read) -> dict[str, str]:
    """The variables of a container, in order; a value may refer to earlier variables."""
    found: dict[str, str] = {}
    for source in container.get("envFrom") or []:
        kind, name = _named(source)
        prefix = source.get("prefix", "")
        found.update({prefix + key: value.decode() for key, value in read(kind, name).items()})
    for variable in container.get("env") or []:
        found[variable["name"]] = _value(variable, pod, read, found)
    return found


def _value(variable: Fields, pod: Fields, read: Read, before: Mapping[str, str]) -> str:
    source = variable.get("valueFrom")
    if source is None:
        return _expanded(variable.get("value", ""), before)
    if "fieldRef" in source:
        return _field(pod, source["fieldRef"]["fieldPath"])
    for key, kind in (("configMapKeyRef", "ConfigMap"), ("secretKeyRef", "Secret")):
        if key in source:
            return read(kind, source[key]["name"])[source[key]["key"]].decode()
    raise UnsupportedPodError(f"variable {variable['name']} comes from {', '.join(source)}")


def _field(pod: Fields, path: str) -> str:
    if path in {"status.podIP", "status.hostIP"}:
        return ADDRESS
    found = _FIELD.fullmatch(path)
    if found is None:
        raise UnsupportedPodError(f"the field {path} of a pod is not known")
    value: Any = pod
    for part in found["path"].split("."):
        value = value.get(part, {} if found["key"] else "")
    return str(value.get(found["key"], "") if found["key"] else value)


def _named(source: Fields) -> tuple[str, str]:
    for key, kind in (("configMapRef", "ConfigMap"), ("secretRef", "Secret")):
        if key in source:
            return kind, source[key]["name"]
    raise UnsupportedPodError(f"variables come from {', '.join(source)}")


def _expanded(text: str, variables: Mapping[str, str]) -> str:
    """Replace ``$(NAME)`` by its value and ``$$`` by ``$``; an unknown name is left unchanged."""

    def value(found: re.Match[str]) -> str:
        name = found["name"]
        return "$" if name is None else variables.get(name, found[0])

    return _REFERENCE.sub(value, text)


def _placer(mounts: Mapping[str, Path], services: Iterable[str]) -> Callable[[str], str]:
    """Return a function that replaces mounts by their folders, and host names by 127.0.0.1."""
    # Longest first, so that a mount inside another one, or a longer name, is matched as a whole.
    paths = sorted(mounts, key=len, reverse=True)
    patterns = [rf"(?<![\w./-])(?:{'|'.join(map(re.escape, paths))}){_END}"] if paths else []
    if names := sorted(services, key=len, reverse=True):
        dns = r"(?:\.[a-z0-9-]+(?:\.svc(?:\.cluster\.local)?)?)?"
        hosts = rf"(?:[a-z0-9-]+\.)*(?:{'|'.join(map(re.escape, names))}){dns}"
        patterns.append(rf"(?<![\w./-]){hosts}(?![\w./-])")
    if not patterns:
        return lambda text: text
    pattern = re.compile("|".join(patterns))
    return lambda text: pattern.sub(lambda m: str(mounts.get(m[0], ADDRESS)), text)


# --- Folders of this machine for the volumes of a pod


def mounts_of(
    pod: dict[str, Any], claims: Mapping[str, Path], read: Read, home: Path
) -> dict[str, Path]:
    """Return the folder behind each mount of the only container of a pod.

    Args:
        pod: The pod, as JSON of the API.
        claims: Folder of each persistent volume claim that this node knows, by name.
        read: Returns the data of a ConfigMap or Secret of the pod's namespace, by kind and name.
        home: The pod's own folder, into which ConfigMaps and Secrets are written.

    Raises:
        UnsupportedPodError: This node does not know the kind of a volume, or its claim.
    """
    volumes = {volume["name"]: volume for volume in pod["spec"].get("volumes") or []}
    found = {}
    for mount in pod["spec"]["containers"][0].get("volumeMounts") or []:
        folder = _folder(volumes[mount["name"]], claims, read, home / "volumes" / mount["name"])
        found[mount["mountPath"].rstrip("/")] = folder / mount.get("subPath", "")
    return found


def _folder(volume: Mapping[str, Any], claims: Mapping[str, Path], read: Read, own: Path) -> Path:
    if "configMap" in volume:
        return _written(volume["configMap"], read("ConfigMap", volume["configMap"]["name"]), own)
    if "secret" in volume:
        return _written(volume["secret"], read("Secret", volume["secret"]["secretName"]), own)
    if "hostPath" in volume:
        return Path(volume["hostPath"]["path"])
    if "persistentVolumeClaim" in volume:
        claim = volume["persistentVolumeClaim"]["claimName"]
        if claim not in claims:
            raise UnsupportedPodError(f"persistentvolumeclaim {claim!r} not found")
        return claims[claim]
    if "emptyDir" in volume:
        own.mkdir(parents=True, exist_ok=True)
        return own
    raise UnsupportedPodError(f"volume {volume['name']!r} is of a kind that the node has not")


def _written(source: Mapping[str, Any], data: Mapping[str, bytes], folder: Path) -> Path:
    """Write each key as a file, at the path that the volume gives it, and return the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    items = source.get("items") or [{"key": key, "path": key} for key in data]
    for item in items:
        path = folder / item["path"]
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data[item["key"]])
    return folder


# --- The process of a pod: a session of its own, which ends as a whole


class PodProcess:
    """The running command of a container.

    Args:
        command: The process to start.
        uid: The pod's uid, which names the pid file.
        home: Folder of all pods; ``<home>/run/<uid>.pid`` finds the process after a restart.
        log: File for the output.
    """

    def __init__(self, command: PodCommand, uid: str, home: Path, log: Path) -> None:
        self._record = Daemon(uid, home)
        with log.open("wb") as output:
            self._process = subprocess.Popen(
                command.argv,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                cwd=command.folder,
                env=command.environ,
                start_new_session=True,
            )
        self._record.record(self._process.pid)

    def wait(self) -> int:
        """Wait for the command, kill other processes of its session, and return its exit code.

        The code is 128 plus the number of the signal if a signal ended the command.
        """
        status = self._process.wait()
        self._record.sweep()
        return status if status >= 0 else 128 - status

    def end(self, grace_s: float) -> None:
        """Send SIGTERM to the whole session, and SIGKILL after ``grace_s`` seconds."""
        self._signal(signal.SIGTERM)
        try:
            self._process.wait(grace_s)
        except subprocess.TimeoutExpired:
            self._signal(signal.SIGKILL)

    def _signal(self, number: signal.Signals) -> None:
        if self._process.poll() is None:
            with suppress(ProcessLookupError):
                os.killpg(self._process.pid, number)


def sweep_pods(home: Path) -> list[str]:
    """Kill the processes that a killed node left running, and return the uids of their pods."""
    found = sorted(path.stem for path in (home / "run").glob("*.pid"))
    for uid in found:
        Daemon(uid, home).sweep()
    return found
