"""A job's objects on a cluster, for each kind of job: names, metadata, service, pods."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from trainfeed.core.config import JOB_CODE, JOB_RETRIES, JOB_ROOT, PUBLIC_FOLDER
from trainfeed.errors import ConfigError
from trainfeed.training.jobs.job_file import JobPlacement, JobSpec
from trainfeed.training.jobs.kubernetes.settings import ClusterSettings, MountedRoot
from trainfeed.training.jobs.states import RETRYABLE

# --- Names, labels and annotations of a job's objects on a cluster

IDENTITY: Final = "trainfeed/identity"
CODE: Final = "trainfeed/code"
JOB_LABEL: Final = "trainfeed/job"
QUEUE_LABEL: Final = "kueue.x-k8s.io/queue-name"
# The host name of a pod of an Indexed Job is the job's name, a dash and the index, at most 63
# characters: this leaves five digits for the index.
_MOST_CHARS: Final = 57
_HASH_CHARS: Final = 10


def object_name(job: JobSpec) -> str:
    """Return the name of the job's objects: at most 57 lower-case letters, digits and dashes.

    The name ends with a hash of the job's name before any character was replaced, so jobs whose
    names differ only in such characters get different objects.
    """
    digest = hashlib.sha256(job.name.encode()).hexdigest()[:_HASH_CHARS]
    tail = f"-{digest}" if job.attempt == 1 else f"-a{job.attempt}-{digest}"
    # Some kinds allow no digit as first character.
    head = "t-" + re.sub(r"[^a-z0-9]+", "-", job.name.lower()).strip("-")
    return head[: _MOST_CHARS - len(tail)].rstrip("-") + tail


def marks(job: JobSpec) -> dict[str, dict[str, str]]:
    """Return the labels and annotations that every object of a job gets."""
    labels = {
        "app.kubernetes.io/managed-by": "trainfeed",
        JOB_LABEL: object_name(job),
    }
    annotations = {
        IDENTITY: job.identity,
        "trainfeed/name": job.name,
        "trainfeed/dataset": job.dataset,
        "trainfeed/interval": job.interval,
    }
    if not job.is_proven:
        annotations["trainfeed/unproven-image"] = job.image or ""
    return {"labels": labels, "annotations": annotations}


# --- The pod of a rank, the part that all kinds of jobs share

CODE_PATH: Final = "/trainfeed/code"
Json = dict[str, Any]


@dataclass(frozen=True)
class FieldOfPod:
    """A variable's value that the cluster fills in: the pod's label or annotation at ``path``."""

    path: str


@dataclass(frozen=True)
class Mount:
    """A volume of a pod, and the path where it is mounted.

    Attributes:
        name: Name of the volume in the pod.
        path: Path in the container.
        source: Source of the volume, in the form of Kubernetes.
        read_only: Whether the rank may only read it.
    """

    name: str
    path: str
    source: Mapping[str, Any]
    read_only: bool = False

    @classmethod
    def of(cls, name: str, volume: MountedRoot, *, read_only: bool = False) -> Mount | None:
        """Return the mount of a volume of the settings; None when its path is in the image."""
        if volume.claim is not None:
            source: Json = {"persistentVolumeClaim": {"claimName": volume.claim}}
        elif volume.host_path is not None:
            source = {"hostPath": {"path": volume.host_path, "type": "Directory"}}
        else:
            return None
        return cls(name, volume.path, source, read_only)


@dataclass(frozen=True)
class RankPod:
    """The pod of one rank.

    Attributes:
        container: Name of the container; some kinds require a certain name.
        image: Image of the container.
        command: Program and arguments.
        environment: Variables, name to text or to a field that the cluster fills in.
        mounts: The pod's volumes and their paths.
        placement: Resources and place of the rank.
        settings: Settings of the cluster.
        marks: Labels and annotations of the pod.
        subdomain: Name of the service by which ranks find each other.
    """

    container: str
    image: str
    command: Sequence[str]
    environment: Mapping[str, str | FieldOfPod]
    mounts: Sequence[Mount]
    placement: JobPlacement
    settings: ClusterSettings
    marks: Mapping[str, Any] = field(default_factory=dict)
    subdomain: str | None = None

    def template(self) -> Json:
        """Return the pod template."""
        place = self.placement
        spec: Json = {
            "restartPolicy": "Never",
            "automountServiceAccountToken": False,
            "enableServiceLinks": False,
            "containers": [self._container()],
            **_given("volumes", self.volumes()),
            **_given("nodeSelector", dict(place.node_selector)),
            **_given("tolerations", list(place.tolerations)),
            **_given("priorityClassName", place.priority),
            **_given("serviceAccountName", self.settings.service_account),
            **_given("subdomain", self.subdomain),
        }
        if place.image_pull_secret:
            spec["imagePullSecrets"] = [{"name": place.image_pull_secret}]
        return {"metadata": dict(self.marks), "spec": spec}

    def variables(self) -> list[Json]:
        """Return the variables in the form of Kubernetes, sorted by name."""
        return [_variable(name, value) for name, value in sorted(self.environment.items())]

    def arguments(self) -> list[str]:
        """Return program and arguments, with each ``$`` doubled."""
        return [_literal(part) for part in self.command]

    def volumes(self) -> list[Json]:
        """Return the volumes in the form of Kubernetes."""
        return [{"name": mount.name, **mount.source} for mount in self.mounts]

    def volume_mounts(self) -> list[Json]:
        """Return the mounts of the volumes in the form of Kubernetes."""
        return [
            {
                "name": mount.name,
                "mountPath": mount.path,
                **({"readOnly": True} if mount.read_only else {}),
            }
            for mount in self.mounts
        ]

    def resources(self) -> Json:
        """Return requests and limits: memory and accelerators are both, processors a request."""
        place = self.placement
        hard: dict[str, str] = {}
        if place.memory_bytes is not None:
            hard["memory"] = str(place.memory_bytes)
        if place.gpu_type is not None:
            hard[place.gpu_type] = str(place.gpu_number)
        cpu = {} if place.cpu is None else {"cpu": _processors(place.cpu)}
        return {**_given("requests", {**cpu, **hard}), **_given("limits", hard)}

    def _container(self) -> Json:
        return {
            "name": self.container,
            "image": self.image,
            "command": self.arguments(),
            "env": self.variables(),
            "securityContext": {"allowPrivilegeEscalation": False},
            "terminationMessagePolicy": "FallbackToLogsOnError",
            **_given("resources", self.resources()),
            **_given("volumeMounts", self.volume_mounts()),
        }


def _given(name: str, value: Any) -> Json:
    return {name: value} if value else {}


def _variable(name: str, value: str | FieldOfPod) -> Json:
    if isinstance(value, FieldOfPod):
        return {"name": name, "valueFrom": {"fieldRef": {"fieldPath": value.path}}}
    return {"name": name, "value": _literal(value)}


def _literal(text: str) -> str:
    # In commands and values the kubelet expands "$(NAME)", and turns "$$" into "$".
    return text.replace("$", "$$")


def _processors(cpu: float) -> str:
    return f"{round(cpu * 1000)}m"


# --- The parts of a job's objects that all kinds share: metadata, code, service, pod of a rank

PORT: Final = 29_500
_RUNTIME: Final = ("python", "-m", "trainfeed.training.runtime")


@dataclass(frozen=True)
class JobPlan:
    """A job, with everything that its objects are made from.

    Attributes:
        job: The job; it has a placement.
        placement: The placement of ``job``.
        settings: Settings of the cluster.
        home: The job's folder, relative to the publication root.
        code: Text of each file by name, for a ConfigMap; None when the code is a folder below the
            publication root.
        code_folder: That folder, relative to the publication root; None when ``code`` is given.
    """

    job: JobSpec
    placement: JobPlacement
    settings: ClusterSettings
    home: str
    code: Mapping[str, str] | None
    code_folder: str | None

    @property
    def name(self) -> str:
        """Name of all objects of the job."""
        return object_name(self.job)

    def metadata(self) -> dict[str, Any]:
        """Return name, namespace, labels and annotations for any object of the job."""
        return {"name": self.name, "namespace": self.settings.namespace, **marks(self.job)}

    def job_metadata(self) -> dict[str, Any]:
        """Return the metadata of the job itself, which has the label of its queue in addition."""
        metadata = self.metadata()
        if self.placement.queue:
            metadata["labels"] = {**metadata["labels"], QUEUE_LABEL: self.placement.queue}
        return metadata

    def config_map(self) -> dict[str, Any] | None:
        """Return the ConfigMap of the code, or None when the code is a folder."""
        if self.code is None:
            return None
        metadata = self.metadata()
        metadata["annotations"] = {**metadata["annotations"], CODE: self.job.code}
        return {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": metadata,
            "immutable": True,
            "data": dict(sorted(self.code.items())),
        }

    def service(self) -> dict[str, Any]:
        """Return the headless service; ranks find each other by it, also before they are ready."""
        return {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": self.metadata(),
            "spec": {
                "clusterIP": "None",
                "publishNotReadyAddresses": True,
                "selector": {JOB_LABEL: self.name},
                "ports": [{"name": "rendezvous", "port": PORT}],
            },
        }


def rank_pod(
    plan: JobPlan,
    *,
    container: str,
    rank: Mapping[str, str | FieldOfPod],
    subdomain: str | None = None,
) -> RankPod:
    """Return the pod of a rank.

    Args:
        plan: The job.
        container: Name of the container.
        rank: Variables with the number of the rank and the address of rank 0, for this kind.
        subdomain: Name of the service of the ranks.
    """
    job = plan.job
    return RankPod(
        container=container,
        image=plan.settings.image_of(job.image),
        command=job.command or _RUNTIME,
        environment={**job.environment, **_environment(plan), **rank},
        mounts=_mounts(plan),
        placement=plan.placement,
        settings=plan.settings,
        marks=marks(job),
        subdomain=subdomain,
    )


def _environment(plan: JobPlan) -> dict[str, str]:
    """Return the variables that ranks of all kinds get; some have the names of PaddleCloud."""
    job, root = plan.job, plan.settings.root.path
    code = CODE_PATH if plan.code is not None else f"{root}/{plan.code_folder}"
    return {
        "TRAINFEED_JOB": f"{root}/{plan.home}",
        JOB_ROOT: root,
        JOB_CODE: code,
        "TRAINFEED_VERSIONS": ":".join(f"{root}/{version.path}" for version in job.versions),
        "TRAINFEED_MANIFESTS": ":".join(version.manifest_sha256 for version in job.versions),
        "TRAINFEED_SEED": str(job.seed),
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONUNBUFFERED": "1",
        "PADDLE_JOB_NAME": plan.name,
        "PADDLE_TRAINERS": str(job.ranks),
        "PADDLE_TRAINERS_NUM": str(job.ranks),
        "TRAINERS": str(job.ranks),
        **({"ENTRY": job.entry} if job.entry else {}),
        **({PUBLIC_FOLDER: public.path} if (public := plan.settings.public) else {}),
    }


def _mounts(plan: JobPlan) -> list[Mount]:
    settings, place = plan.settings, plan.placement
    root = Mount.of("trainfeed-root", settings.root)
    mounts = [root] if root is not None else []
    if settings.public is not None:
        public = Mount.of("trainfeed-public", settings.public, read_only=True)
        mounts += [public] if public is not None else []
    if plan.code is not None:
        source = {"configMap": {"name": plan.name}}
        mounts.append(Mount("trainfeed-code", CODE_PATH, source, read_only=True))
    if place.shared_memory_bytes is not None:
        memory = {"emptyDir": {"medium": "Memory", "sizeLimit": str(place.shared_memory_bytes)}}
        mounts.append(Mount("shared-memory", "/dev/shm", memory))  # noqa: S108 - of the pod
    for number, name in enumerate(place.volumes):
        volume = settings.volume(name)
        mount = Mount.of(f"volume-{number}", volume, read_only=volume.read_only)
        mounts += [mount] if mount is not None else []
    return mounts


# --- Indexed Jobs, JobSets and TrainJobs: the kinds whose ranks are the indexes of an Indexed Job

_CONTAINER: Final = "trainer"
_RANKS: Final = "ranks"
# In the runtime of a TrainJob: name of the replicated job that trains, and of its container.
_NODE: Final = "node"
_BATCH_INDEX: Final = FieldOfPod("metadata.annotations['batch.kubernetes.io/job-completion-index']")
# Exit statuses that count as a restart: a passing fault, SIGKILL, SIGTERM.
_FROM_OUTSIDE: Final = [RETRYABLE, 128 + 9, 128 + 15]
_HOUR_S: Final = 3600


def indexed_job(plan: JobPlan) -> dict[str, Any]:
    """Return the Job; ranks find each other by the service of the plan, if there are several."""
    first = f"{plan.name}-0.{plan.name}"
    subdomain = plan.name if plan.job.ranks > 1 else None
    pod = rank_pod(plan, container=_CONTAINER, rank=_rank(plan, first), subdomain=subdomain)
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": plan.job_metadata(),
        "spec": {
            **_batch_job(plan, pod),
            **_suspended(plan),
            "ttlSecondsAfterFinished": plan.settings.keep_hours * _HOUR_S,
        },
    }


def job_set(plan: JobPlan) -> dict[str, Any]:
    """Return the JobSet, with one replicated job; the cluster makes the service of its ranks.

    A restart starts all ranks again: a collective training cannot continue with one new rank.
    """
    first = f"{plan.name}-{_RANKS}-0-0.{plan.name}"
    pod = rank_pod(plan, container=_CONTAINER, rank=_rank(plan, first))
    job = {**_batch_job(plan, pod), "backoffLimit": 0}
    job.pop("backoffLimitPerIndex", None)
    return {
        "apiVersion": "jobset.x-k8s.io/v1alpha2",
        "kind": "JobSet",
        "metadata": plan.job_metadata(),
        "spec": {
            **_suspended(plan),
            "network": {"enableDNSHostnames": True, "subdomain": plan.name},
            "failurePolicy": {
                "maxRestarts": plan.placement.retries,
                "rules": [
                    {
                        "name": "ownFailure",
                        "action": "FailJobSet",
                        "onJobFailureReasons": ["PodFailurePolicy", "DeadlineExceeded"],
                    }
                ],
            },
            "replicatedJobs": [{"name": _RANKS, "replicas": 1, "template": {"spec": job}}],
            "ttlSecondsAfterFinished": plan.settings.keep_hours * _HOUR_S,
        },
    }


def train_job(plan: JobPlan) -> dict[str, Any]:
    """Return the TrainJob; all else comes from its runtime, which the installation owns."""
    pod = rank_pod(plan, container=_NODE, rank={"PADDLE_TRAINER_ID": _BATCH_INDEX})
    override = {
        "targetJobs": [{"name": _NODE}],
        "volumes": pod.volumes(),
        "nodeSelector": dict(plan.placement.node_selector),
        "tolerations": list(plan.placement.tolerations),
        "containers": [{"name": _NODE, "volumeMounts": pod.volume_mounts()}],
    }
    account = plan.settings.service_account
    marks = plan.metadata()
    return {
        "apiVersion": "trainer.kubeflow.org/v1alpha1",
        "kind": "TrainJob",
        "metadata": plan.job_metadata(),
        "spec": {
            "runtimeRef": {"name": plan.settings.runtime},
            "labels": marks["labels"],
            "annotations": marks["annotations"],
            **_suspended(plan),
            "trainer": {
                "image": pod.image,
                "command": pod.arguments(),
                "env": pod.variables(),
                "numNodes": plan.job.ranks,
                "resourcesPerNode": pod.resources(),
            },
            "podSpecOverrides": [
                {**override, **({"serviceAccountName": account} if account else {})}
            ],
        },
    }


def _rank(plan: JobPlan, first: str) -> dict[str, str | FieldOfPod]:
    address = first if plan.job.ranks > 1 else "127.0.0.1"
    return {
        "RANK": _BATCH_INDEX,
        "WORLD_SIZE": str(plan.job.ranks),
        "MASTER_ADDR": address,
        "MASTER_PORT": str(PORT),
        "PADDLE_TRAINER_ID": _BATCH_INDEX,
        "PADDLE_MASTER": f"{address}:{PORT}",
    }


def _batch_job(plan: JobPlan, pod: RankPod) -> dict[str, Any]:
    """Return the ``spec`` of an Indexed Job with one index per rank."""
    retries, limit = plan.placement.retries, plan.placement.time_limit_s
    backoff = {"backoffLimitPerIndex": retries} if retries else {"backoffLimit": 0}
    return {
        "completionMode": "Indexed",
        "completions": plan.job.ranks,
        "parallelism": plan.job.ranks,
        **backoff,
        "podFailurePolicy": _failure_policy(),
        **({} if limit is None else {"activeDeadlineSeconds": limit}),
        "template": pod.template(),
    }


def _failure_policy() -> dict[str, Any]:
    """Return the rules: an end from outside counts as a retry, any other failure ends the job."""
    disrupted = [{"type": "DisruptionTarget", "status": "True"}]
    codes = {"containerName": _CONTAINER, "operator": "NotIn", "values": _FROM_OUTSIDE}
    return {
        "rules": [
            {"action": "Count", "onPodConditions": disrupted},
            {"action": "FailJob", "onExitCodes": codes},
        ]
    }


def _suspended(plan: JobPlan) -> dict[str, bool]:
    return {"suspend": True} if plan.placement.queue else {}


# --- PyTorchJobs and PaddleJobs, which Kubeflow's training operator runs

_KUBEFLOW_INDEX: Final = FieldOfPod("metadata.labels['training.kubeflow.org/replica-index']")


def pytorch_job(plan: JobPlan) -> dict[str, Any]:
    """Return the PyTorchJob: a master and workers.

    The operator sets RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT.
    """
    pod = rank_pod(plan, container="pytorch", rank=_retries(plan))
    replicas = {"Master": _replica(plan, pod, 1)}
    if plan.job.ranks > 1:
        replicas["Worker"] = _replica(plan, pod, plan.job.ranks - 1)
    return _kubeflow_job(plan, "PyTorchJob", {"pytorchReplicaSpecs": replicas})


def paddle_job(plan: JobPlan) -> dict[str, Any]:
    """Return the PaddleJob; the operator sets no rank, so ranks read it from their pod's label."""
    rank: dict[str, str | FieldOfPod] = {
        "RANK": _KUBEFLOW_INDEX,
        "WORLD_SIZE": str(plan.job.ranks),
        "MASTER_ADDR": f"{plan.name}-worker-0",
        "MASTER_PORT": str(PORT),
        "PADDLE_TRAINER_ID": _KUBEFLOW_INDEX,
        **_retries(plan),
    }
    pod = rank_pod(plan, container="paddle", rank=rank)
    return _kubeflow_job(
        plan, "PaddleJob", {"paddleReplicaSpecs": {"Worker": _replica(plan, pod, plan.job.ranks)}}
    )


def _retries(plan: JobPlan) -> dict[str, str | FieldOfPod]:
    retries = plan.placement.retries
    return {JOB_RETRIES: str(retries)} if retries else {}


def _replica(plan: JobPlan, pod: RankPod, number: int) -> dict[str, Any]:
    template = pod.template()
    # The replica has the restart policy; the operator warns if the pod has one, too.
    del template["spec"]["restartPolicy"]
    # ExitCode: a rank whose status is 128 or more, so was ended by a signal, is started again.
    policy = "ExitCode" if plan.placement.retries else "Never"
    return {"replicas": number, "restartPolicy": policy, "template": template}


def _kubeflow_job(plan: JobPlan, kind: str, replicas: dict[str, Any]) -> dict[str, Any]:
    limit, retries = plan.placement.time_limit_s, plan.placement.retries
    policy = {
        # With backoffLimit 0 the operator would remove the pods, and with them the reason of an
        # end, so the field is left out.
        **({"backoffLimit": retries} if retries else {}),
        "cleanPodPolicy": "Running",
        "ttlSecondsAfterFinished": plan.settings.keep_hours * _HOUR_S,
        **({} if limit is None else {"activeDeadlineSeconds": limit}),
        **({"suspend": True} if plan.placement.queue else {}),
    }
    return {
        "apiVersion": "kubeflow.org/v1",
        "kind": kind,
        "metadata": plan.job_metadata(),
        "spec": {"runPolicy": policy, **replicas},
    }


# --- The kinds of jobs on a cluster: path on the API server, function that builds the object

CONFIG_MAPS: Final = "/api/v1/configmaps"
SERVICES: Final = "/api/v1/services"


@dataclass(frozen=True)
class JobKind:
    """One kind of job.

    Attributes:
        launcher: Name of the kind, a value of ``train.launcher``.
        collection: Path of the kind's objects on the API server: group, version, plural name.
        build: Returns the object of a job.
        pod_label: Label that selects the job's pods; its value is the name of the job's object.
        statuses: Field of the status that lists the counts of ready and active pods; None when the
            counts are in the status itself.
        wants_service: Whether trainfeed makes the service by which ranks find each other.
    """

    launcher: str
    collection: str
    build: Callable[[JobPlan], dict[str, Any]]
    pod_label: str = JOB_LABEL
    statuses: str | None = None
    wants_service: bool = False

    def manifests(self, plan: JobPlan) -> list[tuple[str, dict[str, Any]]]:
        """Return all objects of a job, each with its collection; the job itself comes last."""
        config_map = plan.config_map()
        found = [] if config_map is None else [(CONFIG_MAPS, config_map)]
        if self.wants_service and plan.job.ranks > 1:
            found.append((SERVICES, plan.service()))
        return [*found, (self.collection, self.build(plan))]


_KINDS: Final[Mapping[str, JobKind]] = {
    kind.launcher: kind
    for kind in (
        JobKind("indexed-job", "/apis/batch/v1/jobs", indexed_job, wants_service=True),
        JobKind("pytorch-job", "/apis/kubeflow.org/v1/pytorchjobs", pytorch_job),
        JobKind("paddle-job", "/apis/kubeflow.org/v1/paddlejobs", paddle_job),
        JobKind(
            "train-job",
            "/apis/trainer.kubeflow.org/v1alpha1/trainjobs",
            train_job,
            # The labels of a TrainJob reach its JobSet, not the pods.
            pod_label="jobset.sigs.k8s.io/jobset-name",
            statuses="jobsStatus",
        ),
        JobKind(
            "job-set",
            "/apis/jobset.x-k8s.io/v1alpha2/jobsets",
            job_set,
            statuses="replicatedJobsStatus",
        ),
    )
}


def kind_of(launcher: str) -> JobKind:
    """Return the kind of a launcher.

    Raises:
        ConfigError: There is no kind of that name.
    """
    if launcher not in _KINDS:
        raise ConfigError(f"expected a launcher of {', '.join(_KINDS)}, got {launcher!r}")
    return _KINDS[launcher]
