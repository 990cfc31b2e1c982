"""Calls of an API server: repeated after passing faults, then one error of trainfeed."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, Final, Protocol, TypeVar
from urllib.parse import urlencode

from trainfeed.core.patience import Patience
from trainfeed.errors import ConfigError, JobRejectedError, LaunchError
from trainfeed.training.jobs.kubernetes.settings import ClusterSettings

# --- Calls of an API server: repeated after passing faults, then one error of trainfeed

ResultT = TypeVar("ResultT")

# Pauses of 31.5 s in all: a restarted API server answers again by then.
_CALLS: Final = 8
_LONGEST_PAUSE_S: Final = 8.0
_LONGEST_ASKED_S: Final = 30.0
_MOST_CHARS: Final = 2000
# Bytes of a log that are read to find its end, and the numbers of last lines that are asked for,
# one after the other, until the lines fit into these bytes.
_LOG_BYTES: Final = 1 << 20
_LOG_LINES: Final = (1000, 30, 1)
_PASSING: Final = frozenset({408, 410, 429, 500, 502, 503, 504})


class ApiError(Exception):
    """A call of an API server that failed; ``str(error)`` is the answer or the cause.

    Attributes:
        status: HTTP status of the answer; None when there was no answer.
        retry_after_s: Seconds that the server asks to wait; None when it does not say.
    """

    def __init__(
        self, message: str, *, status: int | None, retry_after_s: float | None = None
    ) -> None:
        super().__init__(message if len(message) <= _MOST_CHARS else f"{message[:_MOST_CHARS]}…")
        self.status = status
        self.retry_after_s = retry_after_s


class ConflictingNameError(Exception):
    """The name of an object is taken."""


class ClusterApi(Protocol):
    """An API server, as plain requests; every method raises ``ApiError``."""

    def request(
        self, method: str, path: str, *, body: Any = None, query: Mapping[str, str] | None = None
    ) -> Any:
        """Send a request and return the JSON of the answer."""

    def text(self, path: str, query: Mapping[str, str], max_bytes: int) -> str:
        """Return the first ``max_bytes`` of an answer as text."""


@dataclass(frozen=True)
class ApiCalls:
    """Requests for one namespace.

    Attributes:
        api: The server.
        connection: Id of the cluster's connection, for messages.
        namespace: Namespace of the objects.
        pause: Called with a number of seconds to wait.
    """

    api: ClusterApi
    connection: str
    namespace: str
    pause: Callable[[float], object]

    def create(self, collection: str, manifest: Mapping[str, Any]) -> dict[str, Any]:
        """Create an object, and return it as the server has it.

        Raises:
            ConfigError: The server does not accept the credentials.
            ConflictingNameError: The name is taken.
            JobRejectedError: The server refuses the object.
            LaunchError: The server does not answer, or reports a passing fault.
        """
        what = f"create {manifest['kind']} {manifest['metadata']['name']}"

        def call() -> dict[str, Any]:
            query = {"fieldValidation": "Strict"}
            found: dict[str, Any] = self.api.request(
                "POST", self._path(collection), body=manifest, query=query
            )
            return found

        try:
            return self._repeated(what, call)
        except ApiError as error:
            if error.status == HTTPStatus.CONFLICT:
                raise ConflictingNameError(str(error)) from error
            raise self._refused(what, error) from error

    def get(self, collection: str, name: str) -> dict[str, Any] | None:
        """Return an object, or None when there is none."""
        what = f"read {collection.rpartition('/')[2]} {name}"

        def call() -> dict[str, Any]:
            found: dict[str, Any] = self.api.request("GET", f"{self._path(collection)}/{name}")
            return found

        try:
            return self._repeated(what, call)
        except ApiError as error:
            if error.status == HTTPStatus.NOT_FOUND:
                return None
            raise self._refused(what, error) from error

    def delete(self, collection: str, name: str) -> None:
        """Delete an object and the objects that it owns; fine if there is none."""
        what = f"delete {collection.rpartition('/')[2]} {name}"
        body = {"propagationPolicy": "Background"}
        try:
            self._repeated(
                what,
                lambda: self.api.request("DELETE", f"{self._path(collection)}/{name}", body=body),
            )
        except ApiError as error:
            if error.status != HTTPStatus.NOT_FOUND:
                raise self._refused(what, error) from error

    def pods(self, label: str, value: str) -> list[dict[str, Any]]:
        """Return the pods whose label has the value."""
        what, query = f"list pods of {value}", {"labelSelector": f"{label}={value}"}

        def call() -> list[dict[str, Any]]:
            found = self.api.request("GET", self._path("/api/v1/pods"), query=query)
            return list(found.get("items") or [])

        try:
            return self._repeated(what, call)
        except ApiError as error:
            raise self._refused(what, error) from error

    def pod_log(self, pod: str, *, max_bytes: int) -> str:
        """Return the end of a pod's log, at most ``max_bytes``; on an error, a note with its cause.

        The server takes the last ``tailLines`` lines and returns the first ``limitBytes`` of them.
        An answer that reaches the limit therefore may lack the end of the log: fewer lines are
        asked for then.
        """
        path, text = f"{self._path('/api/v1/pods')}/{pod}/log", ""
        most = max(max_bytes, _LOG_BYTES)
        try:
            for lines in _LOG_LINES:
                query = {"tailLines": str(lines), "limitBytes": str(most)}
                text = self.api.text(path, query, most)
                if len(text.encode()) < most:
                    break
        except ApiError as error:
            return f"(the log of pod {pod} is not to be had: {error})"
        return text.encode()[-max_bytes:].decode(errors="replace")

    def _path(self, collection: str) -> str:
        # "/apis/batch/v1/jobs" becomes "/apis/batch/v1/namespaces/<namespace>/jobs".
        group, _, plural = collection.rpartition("/")
        return f"{group}/namespaces/{self.namespace}/{plural}"

    def _repeated(self, what: str, call: Callable[[], ResultT]) -> ResultT:
        patience = Patience(
            calls=_CALLS,
            longest_pause_s=_LONGEST_PAUSE_S,
            longest_asked_s=_LONGEST_ASKED_S,
            asked=_asked_wait_s,
            pause=self.pause,
        )
        return patience.call(call, what)

    def _refused(self, what: str, error: ApiError) -> Exception:
        said = f"cluster {self.connection!r}, namespace {self.namespace!r}: cannot {what}"
        answer = f"{error.status}: {error}" if error.status else str(error)
        if _asked_wait_s(error) is not None:
            return LaunchError(
                f"{said}: {answer}; what was made is kept and found again; run the training again"
                " (a scheduler does by itself)"
            )
        if error.status == HTTPStatus.UNAUTHORIZED:
            return ConfigError(f"{said}: {answer}; correct the credentials of the connection")
        remedy = _REMEDIES.get(error.status or 0, "correct what the answer names")
        return JobRejectedError(f"{said}: {answer}; nothing further was made; {remedy}")


_REMEDIES: Final = {
    403: "give the account the role of docs/operations/kubernetes.md, or raise the quota, whichever"
    " the answer names",
    404: "make the namespace, or install what runs jobs of this kind",
    422: "correct 'train' of dataset.yaml at the field that the answer names",
    400: "correct 'train' of dataset.yaml at the field that the answer names",
}


def _asked_wait_s(error: Exception) -> float | None:
    """Return the seconds that an answer asks to wait; None if another call cannot succeed."""
    if not isinstance(error, ApiError) or (error.status and error.status not in _PASSING):
        return None
    return error.retry_after_s or 0.0


# --- Requests with the package ``kubernetes``; no other module imports it

_TIMEOUT_S: Final = (5.0, 30.0)  # connect, read
_MAX_BYTES: Final = 64 << 20
_CHUNK_BYTES: Final = 64 << 10


class KubernetesApi:
    """The API server of a cluster.

    Args:
        settings: Settings of the cluster.

    Raises:
        ConfigError: The extra ``kubernetes`` is not installed, or the kubeconfig is damaged.
    """

    def __init__(self, settings: ClusterSettings) -> None:
        try:
            from kubernetes import client, config
            from urllib3.exceptions import HTTPError
        except ImportError as error:
            raise ConfigError(
                f"launchers on a cluster need the extra 'kubernetes' ({error}); install it:"
                " pip install 'trainfeed[kubernetes]'"
            ) from error
        self._unanswered = (HTTPError, OSError)
        found = client.Configuration()
        try:
            if settings.kubeconfig is None:
                config.load_incluster_config(client_configuration=found)
            else:
                config.load_kube_config(
                    settings.kubeconfig, settings.context, client_configuration=found
                )
        except (config.ConfigException, OSError) as error:
            raise _no_kubeconfig(settings, str(error)) from error
        except (AttributeError, KeyError, TypeError, ValueError, config.kube_config.yaml.YAMLError):
            # The parser's error would quote the text around the fault, which may be a token.
            raise _no_kubeconfig(settings, "a file of other content") from None
        found.retries = False
        self._client = client.ApiClient(found)

    def request(
        self, method: str, path: str, *, body: Any = None, query: Mapping[str, str] | None = None
    ) -> Any:
        """Send a request and return the JSON of the answer.

        Raises:
            ApiError: The server did not answer, or answered with an error.
        """
        data = self._send(method, path, body, query or {}, _MAX_BYTES)
        try:
            return json.loads(data) if data else {}
        except ValueError as error:
            raise ApiError(f"the answer is no JSON: {error}", status=None) from error

    def text(self, path: str, query: Mapping[str, str], max_bytes: int) -> str:
        """Return the first ``max_bytes`` of an answer as text.

        Raises:
            ApiError: The server did not answer, or answered with an error.
        """
        return self._send("GET", path, None, query, max_bytes).decode(errors="replace")

    def _send(
        self, method: str, path: str, body: Any, query: Mapping[str, str], max_bytes: int
    ) -> bytes:
        headers = {"Accept": "application/json, */*", "Content-Type": "application/json"}
        client = self._client
        client.update_params_for_auth(headers, [], ["BearerToken"], path, method, body)
        url = client.configuration.host + path + (f"?{urlencode(query)}" if query else "")
        try:
            answer = client.rest_client.pool_manager.request(
                method,
                url,
                body=None if body is None else json.dumps(body),
                headers=headers,
                timeout=_timeout(),
                retries=False,
                preload_content=False,
            )
            data = _bounded(answer, max_bytes)
        except self._unanswered as error:
            raise ApiError(f"{type(error).__name__}: {error}", status=None) from error
        if answer.status >= 400:
            raise _error(answer, data)
        return data


def _no_kubeconfig(settings: ClusterSettings, got: str) -> ConfigError:
    return ConfigError(
        f"expected the kubeconfig {settings.kubeconfig or 'of a pod'} with context"
        f" {settings.context or 'current'}, got: {got}; correct the cluster's settings"
    )


def _timeout() -> Any:
    from urllib3 import Timeout

    connect, read = _TIMEOUT_S
    return Timeout(connect=connect, read=read)


def _bounded(answer: Any, max_bytes: int) -> bytes:
    """Return the first ``max_bytes`` of an answer."""
    # A connection whose answer was not read to its end cannot be used again: it is closed.
    data = b""
    try:
        while len(data) < max_bytes and (chunk := answer.read(_CHUNK_BYTES)):
            data += chunk
    finally:
        answer.release_conn() if len(data) < max_bytes else answer.close()
    return data[:max_bytes]


def _error(answer: Any, data: bytes) -> ApiError:
    try:
        message = str(json.loads(data)["message"])
    except (KeyError, TypeError, ValueError):
        message = data[:2000].decode(errors="replace")
    after = answer.headers.get("Retry-After", "")
    return ApiError(
        message, status=answer.status, retry_after_s=float(after) if after.isdigit() else None
    )
