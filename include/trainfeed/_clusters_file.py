"""Clusters and tracking servers of the command line: YAML files of the installation.

The variables ``TRAINFEED_CLUSTERS`` and ``TRAINFEED_TRACKERS`` have their paths. A file holds, by
connection id, the settings that Airflow keeps as extras of its connections; ``ClusterSettings`` and
``MlflowSettings`` list them::

    kubernetes_default:
      kubeconfig: /etc/trainfeed/kubeconfig
      namespace: training
      root: {path: /pfs/dc/public/dataset, claim: cephfs}
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

from trainfeed.errors import ConfigError

__all__ = ["read_clusters"]

_MAX_BYTES: Final = 1 << 20
_EXAMPLE: Final = "kubernetes_default: {namespace: training, root: {path: /pfs/dataset}}"


def read_clusters(path: Path) -> Mapping[str, Mapping[str, Any]]:
    """Return the settings of clusters, or of tracking servers, by connection id.

    Raises:
        ConfigError: The file cannot be read, is larger than 1 MiB, or has another content.
    """
    try:
        with path.open("rb") as file:
            data = file.read(_MAX_BYTES + 1)
        if len(data) > _MAX_BYTES:
            raise ConfigError(f"expected at most {_MAX_BYTES} bytes in {path}, got more")
        found = YAML(typ="safe", pure=True).load(data.decode())
    except OSError as error:
        raise ConfigError(f"cannot read the settings in {path}: {error.strerror}") from error
    except (UnicodeDecodeError, YAMLError) as error:
        raise ConfigError(f"expected YAML in {path}, such as '{_EXAMPLE}': {error}") from error
    if not isinstance(found, dict) or not all(
        isinstance(name, str) and isinstance(each, dict) for name, each in found.items()
    ):
        raise ConfigError(f"expected {path} to hold settings by connection id: '{_EXAMPLE}'")
    return found
