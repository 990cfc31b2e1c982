"""What tests do on the cluster, as one of its accounts."""

from __future__ import annotations

import os
import threading
import time
import uuid
from pathlib import Path

from kubernetes import client, config

from services.kubernetes import ADMIN, IMAGE, NAMESPACE, Kubernetes

DEADLINE_S = float(os.environ.get("TEST_KUBERNETES_DEADLINE_S", "120"))
_PAUSE = threading.Event()


class Account:
    """Clients of one account of a cluster.

    Args:
        kubeconfig: The account, and the address at which it calls the API server.
    """

    def __init__(self, kubeconfig: Path):
        self.kubeconfig = kubeconfig
        self.api = config.new_client_from_config(str(kubeconfig))
        self.core = client.CoreV1Api(self.api)
        self.batch = client.BatchV1Api(self.api)
        self.custom = client.CustomObjectsApi(self.api)


class Lab:
    """The cluster, and what a test has made on it."""

    def __init__(self, service: Kubernetes):
        self.service = service
        self.admin = self.account(ADMIN)

    def account(self, name: str) -> Account:
        return Account(self.service.files.kubeconfig(name))

    def job(self, script: str, *, ranks: int = 1, name: str | None = None, **container) -> str:
        """Make an Indexed Job whose ranks run a script of the shell; returns its name."""
        name = name or f"test-{uuid.uuid4().hex[:10]}"
        body = indexed_job(name, ["/bin/sh", "-c", script], ranks=ranks, **container)
        self.admin.batch.create_namespaced_job(NAMESPACE, body, field_validation="Strict")
        return name

    def conditions(self, name: str) -> set[str]:
        job = self.admin.batch.read_namespaced_job(name, NAMESPACE)
        return {c.type for c in job.status.conditions or () if c.status == "True"}

    def pods(self, name: str) -> list[client.V1Pod]:
        selector = f"batch.kubernetes.io/job-name={name}"
        found = self.admin.core.list_namespaced_pod(NAMESPACE, label_selector=selector).items
        return sorted(found, key=lambda pod: pod.metadata.name)

    def ended(self, name: str) -> str:
        """Wait until a Job is Complete or Failed; returns which."""
        wanted = {"Complete", "Failed"}
        until(lambda: self.conditions(name) & wanted, lambda: self.told(name))
        return (self.conditions(name) & wanted).pop()

    def log(self, name: str) -> str:
        """Logs of all pods of a Job, in the order of their names."""
        read = self.admin.core.read_namespaced_pod_log
        return "".join(read(pod.metadata.name, NAMESPACE) for pod in self.pods(name))

    def told(self, name: str) -> str:
        """States of a Job's pods, for a message."""
        return "\n".join(
            f"{p.metadata.name}: {p.status.container_statuses}" for p in self.pods(name)
        )


def indexed_job(
    name: str, command: list[str], *, ranks: int = 1, image: str = IMAGE, pod=None, **container
) -> dict:
    """Return an Indexed Job that tries every rank once."""
    own = {"name": "trainer", "image": image, "command": command, **container}
    spec = {"restartPolicy": "Never", "containers": [own], "terminationGracePeriodSeconds": 1}
    template = {"spec": {**spec, "automountServiceAccountToken": False, **(pod or {})}}
    shape = {"completionMode": "Indexed", "completions": ranks, "parallelism": ranks}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name},
        "spec": {**shape, "backoffLimit": 0, "template": template},
    }


def until(condition, told=lambda: "", deadline_s=DEADLINE_S):
    """Wait until a condition holds; returns what it gave."""
    end = time.monotonic() + deadline_s
    while not (found := condition()):
        assert time.monotonic() < end, f"the cluster did not get there in time\n{told()}"
        _PAUSE.wait(0.05)
    return found
