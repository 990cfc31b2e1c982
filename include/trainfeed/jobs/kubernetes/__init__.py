"""Launchers on a Kubernetes cluster: Indexed Job, PyTorchJob, PaddleJob, TrainJob, JobSet."""

from trainfeed.jobs.kubernetes._api_calls import ApiError, ClusterApi
from trainfeed.jobs.kubernetes._cluster_settings import ClusterSettings, ClusterVolume, MountedRoot
from trainfeed.jobs.kubernetes._kubernetes_launcher import KubernetesLauncher
from trainfeed.jobs.kubernetes._object_names import object_name

__all__ = [
    "ApiError",
    "ClusterApi",
    "ClusterSettings",
    "ClusterVolume",
    "KubernetesLauncher",
    "MountedRoot",
    "object_name",
]
