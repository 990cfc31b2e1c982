"""Launchers on a Kubernetes cluster: Indexed Job, PyTorchJob, PaddleJob, TrainJob, JobSet."""

from trainfeed.jobs.kubernetes.api import ApiError, ClusterApi
from trainfeed.jobs.kubernetes.launcher import KubernetesLauncher
from trainfeed.jobs.kubernetes.objects import object_name
from trainfeed.jobs.kubernetes.settings import ClusterSettings, ClusterVolume, MountedRoot

__all__ = [
    "ApiError",
    "ClusterApi",
    "ClusterSettings",
    "ClusterVolume",
    "KubernetesLauncher",
    "MountedRoot",
    "object_name",
]
