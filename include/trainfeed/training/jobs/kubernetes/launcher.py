"""Launchers on a cluster: the attempts at a job, their objects, their ends and their errors."""

from __future__ import annotations

import logging
import shutil
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from uuid import uuid4

from trainfeed.core import faults
from trainfeed.core.printable_text import printable, without_secrets
from trainfeed.errors import (
    CodeChangedError,
    ConflictError,
    JobConflictError,
    JobFailedError,
    JobKilledError,
    JobRejectedError,
    LaunchError,
    StorageError,
)
from trainfeed.files import make_folders
from trainfeed.files.stores import posix
from trainfeed.functions import digest_of_texts, training_texts
from trainfeed.training.jobs.job_file import JobPlacement, JobRoots, JobSpec
from trainfeed.training.jobs.kubernetes.api import (
    ApiCalls,
    ClusterApi,
    ConflictingNameError,
    KubernetesApi,
)
from trainfeed.training.jobs.kubernetes.objects import (
    CODE,
    CONFIG_MAPS,
    IDENTITY,
    SERVICES,
    JobPlan,
    kind_of,
    object_name,
)
from trainfeed.training.jobs.kubernetes.settings import ClusterSettings
from trainfeed.training.jobs.kubernetes.states import (
    ended_well,
    gone,
    judged,
    look_at_pods,
    object_state,
)
from trainfeed.training.jobs.record import JobAttempt, JobRecord
from trainfeed.training.jobs.states import JobLook, JobState

# --- The code of a data set for the pods: in a ConfigMap, or as a copy below the publication root

_MOST_BYTES: Final = 900 << 10


@dataclass(frozen=True)
class JobCode:
    """The Python files of a data set's folder.

    Attributes:
        files: Bytes of each file by relative POSIX path.
        digest: Digest of the folder, equal to that in the job file.
    """

    files: Mapping[str, bytes]
    digest: str

    @classmethod
    def read(cls, folder: Path, digest: str) -> JobCode:
        """Read the files of a folder.

        Raises:
            CodeChangedError: The folder's digest is not ``digest``.
            StorageError: A file cannot be read.
        """
        files = training_texts(folder)
        if (actual := digest_of_texts(files)) != digest:
            raise CodeChangedError(
                f"expected code with SHA-256 {digest} in {folder}, got {actual}: it changed during"
                " the launch; nothing was started; train again"
            )
        return cls(files, digest)

    def as_texts(self) -> dict[str, str] | None:
        """Return the files as texts for a ConfigMap, or None when a ConfigMap cannot hold them."""
        if any("/" in name for name in self.files):
            return None
        if sum(map(len, self.files.values())) > _MOST_BYTES:
            return None
        try:
            return {name: data.decode() for name, data in self.files.items()}
        except UnicodeDecodeError:
            return None

    def folder(self, dataset: str) -> str:
        """Return the folder of the copy, relative to the publication root."""
        return f"{dataset}/code/training-{self.digest}"

    def copy_to(self, root: Path, dataset: str) -> str:
        """Copy the files below the publication root, unless the copy exists.

        Returns:
            The folder of the copy, relative to ``root``.

        Raises:
            StorageError: The root refused or failed.
        """
        relative = self.folder(dataset)
        target = root / relative
        with posix.map_errors(target):
            if target.is_dir():
                return relative
            draft = target.with_name(f"{target.name}.{uuid4().hex}.tmp")
            try:
                for name, data in self.files.items():
                    make_folders((draft / name).parent)
                    posix.create_exclusive(draft / name, data, is_public=True)
                posix.rename_directory(draft, target)
            except ConflictError:
                pass  # another launch made the copy first: same digest, same files
            finally:
                shutil.rmtree(draft, ignore_errors=True)
            posix.sync_dir(target.parent)
        return relative


# --- Objects on a cluster belong to the job whose identity their annotation has

logger = logging.getLogger(__name__)

_LOOKS: Final = 3


def created_or_adopted(
    calls: ApiCalls, collection: str, manifest: Mapping[str, Any]
) -> dict[str, Any]:
    """Create an object, or return the existing one of the same identity and code.

    Raises:
        JobConflictError: An object of another job has the name.
        JobRejectedError: The cluster refuses the object.
        LaunchError: The cluster does not answer, or the object comes and goes.
    """
    name = manifest["metadata"]["name"]
    wanted = manifest["metadata"]["annotations"]
    for _ in range(_LOOKS):
        try:
            return calls.create(collection, manifest)
        except ConflictingNameError:
            found = calls.get(collection, name)
        if found is not None:
            has = (found.get("metadata") or {}).get("annotations") or {}
            if any(has.get(mark) != wanted.get(mark) for mark in (IDENTITY, CODE)):
                raise _conflict(manifest["kind"], name, wanted[IDENTITY], has)
            return found
        # The object existed at the first call and was gone at the second: something deletes it.
    raise LaunchError(
        f"{manifest['kind']} {name} was taken and gone again {_LOOKS} times; nothing further was"
        " made; run the training again when nothing deletes it any more"
    )


def delete_own(calls: ApiCalls, collection: str, job: JobSpec) -> None:
    """Delete the object of a job, unless the name belongs to another job."""
    name = object_name(job)
    found = calls.get(collection, name)
    if is_own(found, job):
        calls.delete(collection, name)
    elif found is not None:
        logger.warning(
            "%s %s is not of the job with identity %s; it was left as it is",
            found.get("kind") or collection, name, job.identity,
        )  # fmt: skip


def is_own(found: Mapping[str, Any] | None, job: JobSpec) -> bool:
    """Whether an object is there and has the identity of a job."""
    has = ((found or {}).get("metadata") or {}).get("annotations") or {}
    return has.get(IDENTITY) == job.identity


def require_identity(job: JobSpec, found: Mapping[str, Any], name: str) -> None:
    """Refuse an object that another job has under a name.

    Raises:
        JobConflictError: The object has another identity, or none.
    """
    has = (found.get("metadata") or {}).get("annotations") or {}
    if has.get(IDENTITY) != job.identity:
        raise _conflict(str(found.get("kind") or "object"), name, job.identity, has)


def _conflict(kind: str, name: str, wanted: str, has: Mapping[str, Any]) -> JobConflictError:
    return JobConflictError(
        f"expected {kind} {name} to be of the job with identity {wanted}, got"
        f" {has.get(IDENTITY) or 'one that trainfeed did not make'}; it was left as it is; look at"
        " it, and delete it if nothing needs it; then train again"
    )


# --- Launchers on a cluster: the objects of a job are created, or found and adopted


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


# --- The attempts at a job: made, adopted, and the error of a failed one

_TAIL_BYTES = 2000


def claim_attempt(
    job: JobSpec,
    record: JobRecord,
    launcher: KubernetesLauncher,
    again: str | None,
    look: Callable[[], None] = lambda: None,
) -> tuple[JobAttempt, bool]:
    """Return the attempt to start or adopt, and whether this call has made it.

    Args:
        job: The job as it would be launched now; an existing attempt keeps its own job.
        record: The job's folder.
        launcher: The launcher; asked for the state of the newest attempt.
        again: Reason for a new attempt, if the newest one has failed.
        look: Called after the job file is written, and before an attempt is made; may refuse.
    """
    if again is not None and record.newest_attempt() is not None:
        settle(record, launcher)
    newest = record.newest_attempt()
    if newest is not None and not _may_follow(newest, record, again):
        if newest.ended is None:
            _continue(newest, record)
        return newest, False
    if newest is None:
        # From here on, retention keeps the versions that the job file names.
        record.write(job)
    else:
        record.set_aside_result(newest.number)
    look()
    number = 1 if newest is None else newest.number + 1
    is_new = record.claim(job.model_copy(update={"attempt": number}), again)
    faults.point("launch.after_record")
    return record.attempt(number), is_new


def _continue(attempt: JobAttempt, record: JobRecord) -> None:
    """Make an attempt young: the sweep of abandoned launches leaves out what a launch continues."""
    try:
        record.touch(attempt.number)
    except StorageError as error:
        # The file of another account: the sweep still looks for the job before it removes anything.
        logger.warning("the attempt keeps its age: %s", error)


def settle(record: JobRecord, launcher: KubernetesLauncher) -> JobLook:
    """Return the state of the newest attempt, and write down a final one.

    Raises:
        LaunchError: The cluster does not answer.
    """
    now, attempt = launcher.look(record), record.newest_attempt()
    if attempt is not None and attempt.ended is None and not now.state.is_live:
        # Cleaned first: once the end is written down, no call cleans this attempt any more.
        launcher.clean(attempt)
        faults.point("launch.before_end")
        record.end(attempt.number, now)
    return now


def cancel(record: JobRecord, launcher: KubernetesLauncher) -> JobLook:
    """Cancel the newest attempt, and return its state afterwards; fine if it has ended.

    Raises:
        LaunchError: The cluster does not answer.
    """
    if settle(record, launcher).state.is_live:
        launcher.cancel(record)
    return settle(record, launcher)


def is_cancelled(record: JobRecord, now: JobLook) -> bool:
    """Whether the newest attempt was ended on purpose, and left no result before."""
    attempt = record.newest_attempt()
    return attempt is not None and attempt.is_cancelled and now.state is not JobState.SUCCEEDED


def require_success(record: JobRecord, launcher: KubernetesLauncher) -> None:
    """Raise the error of the newest attempt, unless it succeeded.

    Raises:
        JobRejectedError: A rank refused the job.
        JobKilledError: The attempt was ended from outside.
        JobFailedError: The attempt failed, was cancelled, or is gone.
        LaunchError: The attempt has not ended, or the cluster does not answer.
    """
    now, job = settle(record, launcher), record.job()
    if now.state is JobState.SUCCEEDED:
        return
    if now.state.is_live:
        raise LaunchError(
            f"job {job.name} is {now.state}: {now.reason}; it goes on; ask again: trainfeed jobs"
            f" show {job.name}"
        )
    rank = next((each.rank for each in now.ranks if each.state is now.state), 0)
    tail = end_of_log(record, launcher, rank=rank, max_bytes=_TAIL_BYTES)
    message = (
        f"job {job.name}, attempt {job.attempt}, {_ENDED[now.state]}: {now.reason}; folder"
        f" {record.home}; the versions it read are untouched; {_remedy(job, now.state)}, and start"
        " it again with --again WHY (in Airflow: clear the task)"
    )
    raise _error(now)(f"{message}:\n{tail}" if tail else message)


def end_of_log(
    record: JobRecord, launcher: KubernetesLauncher | None, *, rank: int, max_bytes: int
) -> str:
    """Return the end of a rank's log, without secrets and control characters.

    The log is the file in the job's folder, or else that of the pod.
    """
    text = record.end_of_log(rank, max_bytes=max_bytes)
    if text is None:
        text = _of_cluster(record, launcher, rank, max_bytes) if launcher is not None else ""
    return printable(without_secrets(text[-max_bytes:]), keep="\n\t").strip()


def _of_cluster(record: JobRecord, launcher: KubernetesLauncher, rank: int, max_bytes: int) -> str:
    try:
        return launcher.logs(record, rank=rank, max_bytes=max_bytes)
    except LaunchError as error:
        return f"(no log: {error})"


def _may_follow(newest: JobAttempt, record: JobRecord, again: str | None) -> bool:
    if again is None or newest.ended is None or newest.ended.state is JobState.SUCCEEDED:
        return False
    return not record.has_reason(again)


def _error(now: JobLook) -> type[LaunchError]:
    if now.state is JobState.KILLED:
        return JobKilledError
    return JobRejectedError if now.is_rejected else JobFailedError


_ENDED = {
    JobState.FAILED: "failed",
    JobState.KILLED: "was killed",
    JobState.CANCELLED: "was cancelled",
    JobState.UNKNOWN: "is gone",
}


def _remedy(job: JobSpec, state: JobState) -> str:
    if state is JobState.FAILED:
        return f"fix {job.entry or 'its command'}"
    return "look at the cluster's events" if state is JobState.UNKNOWN else "see why"
