"""Requests with the package ``kubernetes``; no other module imports it.

Requests name path and JSON, not the typed classes of the package, so all kinds of jobs share them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import urlencode

from trainfeed.errors import ConfigError
from trainfeed.jobs.kubernetes._api_calls import ApiError
from trainfeed.jobs.kubernetes._cluster_settings import ClusterSettings

__all__ = ["KubernetesApi"]

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
