"""Folders of this machine for the volumes of a pod."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from services.kubernetes._pod_command import UnsupportedPodError

Read = Callable[[str, str], dict[str, bytes]]


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
