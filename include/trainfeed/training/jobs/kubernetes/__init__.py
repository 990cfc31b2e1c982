"""Launchers on a Kubernetes cluster: Indexed Job, PyTorchJob, PaddleJob, TrainJob, JobSet."""

from trainfeed.training.jobs.kubernetes.api import ApiError, ClusterApi
from trainfeed.training.jobs.kubernetes.launcher import KubernetesLauncher
from trainfeed.training.jobs.kubernetes.objects import object_name
from trainfeed.training.jobs.kubernetes.settings import ClusterSettings, ClusterVolume, MountedRoot

__all__ = [
    "ApiError",
    "ClusterApi",
    "ClusterSettings",
    "ClusterVolume",
    "KubernetesLauncher",
    "MountedRoot",
    "object_name",
]
