"""A Kubernetes cluster of plain processes: the real control plane, and a node that runs commands.

API server, controllers and etcd are the programs of the project Kubernetes, built once. The node is
our own program: it runs the command of a pod as a process of this machine, so there are no images,
no limits of memory or processors, and no mounts.
"""

from __future__ import annotations

from services.kubernetes._cluster import ADMIN, NAMESPACE, STRANGER, USER, Kubernetes
from services.kubernetes._pod_command import IMAGE

__all__ = ["ADMIN", "IMAGE", "NAMESPACE", "STRANGER", "USER", "Kubernetes"]
