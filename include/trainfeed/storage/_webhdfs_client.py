"""The client behind ``webhdfs://``, and the translation of its errors."""

from __future__ import annotations

import http.client
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from types import ModuleType
from typing import Any, Final
from urllib.parse import quote, urlencode

from trainfeed.errors import ConfigError, StorageError
from trainfeed.storage._hadoop import hadoop_error, outage

__all__ = ["READ_TIMEOUT_S", "ask", "connect", "map_errors"]

# Longest silence between two answers: a pipeline that replaces a dead DataNode takes a while.
READ_TIMEOUT_S: Final = 60.0
# Most nested errors that are followed: three packages wrap an error of a connection.
_MAX_NESTED: Final = 8
_MAX_REASON_CHARS: Final = 200
_CONNECT_TIMEOUT_S: Final = 5.0


@cache
def connect(address: str, user: str | None) -> Any:
    """Return the client for ``host:port`` and a user, made once per process."""
    timeouts = (_CONNECT_TIMEOUT_S, READ_TIMEOUT_S)
    client = _package().InsecureClient(f"http://{address}", user=user, timeout=timeouts)
    client.resolve = str  # otherwise it expands "#LATEST" in a path
    client._session.trust_env = False  # noqa: SLF001
    client._session.max_redirects = 1  # noqa: SLF001
    return client


# Otherwise parent and child of a fork would send their requests over the same sockets.
os.register_at_fork(before=connect.cache_clear)


def ask(client: Any, operation: str, path: str) -> dict[str, Any]:
    """Return the answer to a request about one file or folder; folders have thousands.

    The request uses the package's pool of connections directly: the layers above the pool take
    twice the time of servers and network.

    Args:
        client: The client from ``connect``.
        operation: An operation of WebHDFS that reads, such as ``GETFILESTATUS``.
        path: The file or folder.
    """
    import urllib3

    query = urlencode({**client._session.params, "op": operation})  # noqa: SLF001
    url = f"{client.url}/webhdfs/v1{quote(path)}?{query}"
    pool = client._session.get_adapter(url).poolmanager  # noqa: SLF001
    try:
        answer = pool.request(
            "GET",
            url,
            timeout=urllib3.Timeout(_CONNECT_TIMEOUT_S, READ_TIMEOUT_S),
            # One redirect, to a DataNode.
            retries=urllib3.Retry(None, connect=0, read=0, redirect=1, status=0, other=0),
        )
    except urllib3.exceptions.HTTPError as error:
        raise OSError(str(error)) from error
    if answer.status != http.client.OK:
        raise _refusal(answer.status, answer.data)
    try:
        return dict(json.loads(answer.data))
    except ValueError as error:
        raise OSError(f"the answer is not in the form of WebHDFS: {error}") from error


def _package() -> ModuleType:
    try:
        import hdfs
    except ImportError as error:
        raise ConfigError(
            f"expected hdfs for webhdfs:// locations, got: {error}; install trainfeed[hdfs]"
        ) from error
    return hdfs  # type: ignore[no-any-return]


@contextmanager
def map_errors(place: str) -> Iterator[None]:
    """Raise errors of the package or a connection as those of ``StorageError``."""
    hdfs_error: type[Exception] = _package().HdfsError
    try:
        yield
    except hdfs_error as error:
        raise _mapped(error, place) from error
    except (OSError, http.client.HTTPException) as error:  # all of requests' are an OSError
        raise outage(place, _reason(error, place)) from error
    except (KeyError, TypeError) as error:
        raise outage(place, f"the answer is not in the form of WebHDFS: {error!r}") from error


def _reason(error: BaseException, place: str) -> str:
    """Return the system's reason for a failed connection, without the texts of packages above.

    The text names the host if it is not in ``place``: a NameNode redirects to DataNodes.
    """
    chain = _chain(error)
    said = [each.strerror for each in chain if isinstance(each, OSError) and each.strerror]
    hosts = [host for each in chain if (host := _host(each)) and host not in place]
    if any(isinstance(each, TimeoutError) for each in chain):
        said.insert(0, "timed out")
    if not said:
        return (str(error) or type(error).__name__).partition("\n")[0][:_MAX_REASON_CHARS]
    return ": ".join([*hosts[:1], said[0].lower()])


def _host(error: BaseException) -> str:
    """Return the host from an error of the client's pool of connections, or an empty text."""
    said = vars(error)
    return str(getattr(said.get("conn") or said.get("pool"), "host", ""))


def _chain(error: BaseException) -> list[BaseException]:
    """Return the error, and the errors nested in it."""
    found = [error]
    while len(found) < _MAX_NESTED:
        last = found[-1]
        nested = (getattr(last, "reason", None), *last.args, last.__cause__, last.__context__)
        inner = next((each for each in nested if isinstance(each, BaseException)), None)
        if inner is None:
            break
        found.append(inner)
    return found


def _refusal(status: int, body: bytes) -> Exception:
    """Return the error that the package raises for such an answer."""
    if status == http.client.UNAUTHORIZED:
        return _package().HdfsError("Authentication failure")  # type: ignore[no-any-return]
    try:
        problem = json.loads(body)["RemoteException"]
    except ValueError:
        problem = {"message": body, "exception": None}
    return _package().HdfsError(problem["message"], exception=problem["exception"])  # type: ignore[no-any-return]


def _mapped(error: Any, place: str) -> StorageError:
    message = error.message
    text = message.decode(errors="replace") if isinstance(message, bytes) else str(message)
    exception: str | None = error.exception
    if exception is None and text.startswith("Authentication failure"):
        exception = "AuthenticationException"
    return hadoop_error(place, exception, text)
