"""Launchers on a cluster: the objects of a job are created, or found and adopted.

First the attempt is written down in the job's folder. Then the code, the service and the job are
created, all under one name, which is a function of the job; an existing object with the job's
identity is adopted. So the next launch completes one that was killed between any two steps, and
no job runs twice at once.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trainfeed import faults
from trainfeed.errors import JobRejectedError
from trainfeed.jobs._job_look import JobLook
from trainfeed.jobs._job_placement import JobPlacement
from trainfeed.jobs._job_record import JobAttempt, JobRecord
from trainfeed.jobs._job_roots import JobRoots
from trainfeed.jobs._job_spec import JobSpec
from trainfeed.jobs._job_state import JobState
from trainfeed.jobs.kubernetes._api_calls import ApiCalls, ClusterApi
from trainfeed.jobs.kubernetes._client import KubernetesApi
from trainfeed.jobs.kubernetes._cluster_settings import ClusterSettings
from trainfeed.jobs.kubernetes._job_code import JobCode
from trainfeed.jobs.kubernetes._job_ends import ended_well, gone, judged
from trainfeed.jobs.kubernetes._kinds import CONFIG_MAPS, SERVICES, kind_of
from trainfeed.jobs.kubernetes._object_names import object_name
from trainfeed.jobs.kubernetes._object_owners import (
    created_or_adopted,
    delete_own,
    is_own,
    require_identity,
)
from trainfeed.jobs.kubernetes._object_states import object_state
from trainfeed.jobs.kubernetes._rank_pods import look_at_pods
from trainfeed.jobs.kubernetes._rendering import JobPlan

__all__ = ["KubernetesLauncher"]


@dataclass(frozen=True)
class KubernetesLauncher:
    """Launches jobs of one kind on one cluster.

    Attributes:
        kind: Kind of the jobs, a value of ``train.launcher``.
        connection: Id of the cluster's connection.
        settings: Settings of the cluster.
        roots: Folders of versions and code, as this process sees them.
        api: The API server; by default the one of the settings.
        pause: Called with a number of seconds to wait before a call is repeated.
    """

    kind: str
    connection: str
    settings: ClusterSettings
    roots: JobRoots
    api: ClusterApi | None = None
    pause: Callable[[float], object] = threading.Event().wait

    @classmethod
    def of(
        cls,
        placement: JobPlacement,
        roots: JobRoots,
        clusters: Mapping[str, Mapping[str, Any]],
    ) -> KubernetesLauncher:
        """Return the launcher for a placement.

        Args:
            placement: The placement of a job; it names launcher and connection.
            roots: Folders of versions and code, as this process sees them.
            clusters: Settings of each cluster by connection id.

        Raises:
            ConfigError: The cluster has no settings, or wrong ones.
        """
        settings = ClusterSettings.of(clusters, placement.connection)
        return cls(placement.launcher, placement.connection, settings, roots)

    def start(self, job: JobSpec, home: Path) -> JobLook:
        """Create the attempt's objects, or adopt them.

        Args:
            job: The job of an attempt that is written down already.
            home: The job's folder.

        Raises:
            ConfigError: The cluster's settings or credentials are wrong.
            JobConflictError: An object of another job has the name.
            JobRejectedError: The cluster, or the installation, refuses the job.
            LaunchError: The cluster does not answer.
        """
        record = JobRecord(home)
        attempt = record.attempt(job.attempt)
        if attempt.ended is None and attempt.is_cancelled:
            self.cancel(record)
        if attempt.ended is not None or attempt.is_created or attempt.is_cancelled:
            return self.look(record)
        calls, kind = self._calls(), kind_of(self.kind)
        plan = self._plan(job, home, makes=True)
        manifests = kind.manifests(plan)
        record.write(job)
        made: dict[str, Any] = {}
        for collection, manifest in manifests:
            faults.point(f"launch.before_{manifest['kind']}")
            made = created_or_adopted(calls, collection, manifest)
        faults.point("launch.after_create")
        record.mark_created(job.attempt, str(made["metadata"].get("uid", "")))
        # A cancellation that came before the job was created found nothing to delete: do it now.
        if record.attempt(job.attempt).is_cancelled:
            self.cancel(record)
        return self.look(record)

    def look(self, record: JobRecord) -> JobLook:
        """Return the state of the newest attempt; nothing is changed."""
        attempt = record.newest_attempt()
        if attempt is None:
            return JobLook(JobState.UNKNOWN, "nothing was started on a cluster")
        if attempt.ended is not None:
            return attempt.ended
        calls, kind = self._calls(), kind_of(self.kind)
        name = object_name(attempt.job)
        found = calls.get(kind.collection, name)
        if found is None:
            return gone(record, attempt)
        require_identity(attempt.job, found, name)
        state = object_state(kind, found)
        if state.state is JobState.SUCCEEDED:
            return ended_well(record)
        return judged(attempt, state, look_at_pods(calls.pods(kind.pod_label, name)))

    def cancel(self, record: JobRecord) -> None:
        """Cancel the newest attempt; fine if it has ended, or if there is none.

        Objects of other jobs under the names of the attempt are left as they are.
        """
        attempt = record.newest_attempt()
        if attempt is None or attempt.ended is not None:
            return
        record.mark_cancelled(attempt.number)
        faults.point("launch.before_delete")
        delete_own(self._calls(), kind_of(self.kind).collection, attempt.job)
        self.clean(attempt)

    def clean(self, attempt: JobAttempt) -> None:
        """Delete ConfigMap and service of an attempt that has ended; the job itself stays."""
        calls = self._calls()
        for collection in self._beside(attempt):
            delete_own(calls, collection, attempt.job)

    def is_made(self, attempt: JobAttempt) -> bool:
        """Whether the cluster has an object under the name of the attempt's job."""
        return (
            self._calls().get(kind_of(self.kind).collection, object_name(attempt.job)) is not None
        )

    def leftovers(self, attempt: JobAttempt) -> list[str]:
        """Return the attempt's objects beside the job, as ``configmaps/NAME``; changes nothing."""
        calls, name = self._calls(), object_name(attempt.job)
        return [
            f"{collection.rpartition('/')[2]}/{name}"
            for collection in self._beside(attempt)
            if is_own(calls.get(collection, name), attempt.job)
        ]

    def _beside(self, attempt: JobAttempt) -> list[str]:
        """Return the collections of the objects that an attempt has beside its job."""
        has_service = kind_of(self.kind).wants_service and attempt.job.ranks > 1
        return [CONFIG_MAPS, SERVICES] if has_service else [CONFIG_MAPS]

    def logs(self, record: JobRecord, *, rank: int, max_bytes: int) -> str:
        """Return the last ``max_bytes`` of the log of a rank's pod, or a note why there is none."""
        attempt = record.newest_attempt()
        if attempt is None:
            return ""
        calls = self._calls()
        pods = look_at_pods(calls.pods(kind_of(self.kind).pod_label, object_name(attempt.job)))
        for pod in pods:
            if pod.rank.rank == rank:
                return calls.pod_log(pod.name, max_bytes=max_bytes)
        return f"(the cluster has no pod of rank {rank} any more)"

    def render(self, job: JobSpec, home: Path) -> Sequence[dict[str, Any]]:
        """Return the objects that ``start`` would make, and make nothing."""
        kind = kind_of(self.kind)
        return [manifest for _, manifest in kind.manifests(self._plan(job, home, makes=False))]

    def _calls(self) -> ApiCalls:
        api = KubernetesApi(self.settings) if self.api is None else self.api
        return ApiCalls(api, self.connection, self.settings.namespace, self.pause)

    def _plan(self, job: JobSpec, home: Path, *, makes: bool) -> JobPlan:
        place, root = _placement(job), self.roots.root
        if root is None:
            raise JobRejectedError(f"job {job.name}: expected the publication root, got none")
        code = JobCode.read(self.roots.folder(job), job.code)
        texts, folder = code.as_texts(), None
        if texts is None:
            folder = code.copy_to(root, job.dataset) if makes else code.folder(job.dataset)
        relative = home.relative_to(root).as_posix()
        return JobPlan(job, place, self.settings, relative, texts, folder)


def _placement(job: JobSpec) -> JobPlacement:
    if job.placement is None:
        raise JobRejectedError(f"job {job.name} is one of this machine; it has no placement")
    return job.placement
