"""No error of a client reaches a caller under its own name, and none means the wrong thing."""

from __future__ import annotations

import errno
import http.client
import inspect
import os
import socket
import threading
from types import SimpleNamespace

import hdfs
import hdfs.util
import hdfs_native
import pytest
import requests
from urllib3.exceptions import NewConnectionError

from trainfeed.errors import (
    AccessDeniedError,
    ConflictError,
    NotFoundError,
    Outcome,
    QuotaExceededError,
    StorageError,
    UnsuitableStoreError,
)
from trainfeed.files import os_errors
from trainfeed.files.stores import Location
from trainfeed.files.stores import hdfs as _hdfs
from trainfeed.files.stores import webhdfs as _webhdfs_client
from trainfeed.files.stores.hadoop import EXCEPTION_KINDS
from trainfeed.files.stores.webhdfs import _reason

ARGUMENTS = {"IncompleteRead": (b"", 1), "JSONDecodeError": ("why", "{", 1)}
STACK = "\n\tat org.apache.hadoop.hdfs.server.namenode.FSNamesystem.x(FSNamesystem.java:1)"

DEFINITE = {
    NotFoundError: {"ENOENT", "ENOTDIR"},
    AccessDeniedError: {"EACCES", "EPERM", "EROFS", "ELOOP"},
    ConflictError: {"EEXIST", "ENOTEMPTY", "EISDIR"},
    QuotaExceededError: {"ENOSPC", "EDQUOT", "EFBIG"},
    UnsuitableStoreError: {
        "EXDEV",
        "EINVAL",
        "EMLINK",
        "ENAMETOOLONG",
        "ENOSYS",
        "EOPNOTSUPP",
        "ENOTSUP",
    },
}


def raised_by_os(error: OSError) -> StorageError:
    with pytest.raises(StorageError) as caught, os_errors("/the/path"):
        raise error
    return caught.value


def test_a_full_disk_says_how_much_is_free_there(tmp_path):
    full = pytest.raises(QuotaExceededError, match=r"device, \d+ bytes are free there; free space")
    with full, os_errors(tmp_path / "not" / "there"):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def refused_connection(call) -> None:
    """A port of this machine that nobody listens on."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        place = f"webhdfs://127.0.0.1:{free.getsockname()[1]}/x"
        with pytest.raises(StorageError) as refused:
            call(Location.parse(place))
    message = str(refused.value)
    assert message.startswith(f"{place}: connection refused; ")
    assert "Max retries" not in message


@pytest.mark.parametrize("call", [lambda x: x.exists(), lambda x: x.read_bytes()])
def test_a_webhdfs_that_is_down_is_said_in_the_words_of_the_system(call, socket_enabled):
    refused_connection(call)


def test_a_webhdfs_that_does_not_answer_is_said_to_have_timed_out(monkeypatch, socket_enabled):
    monkeypatch.setattr("trainfeed.files.stores.webhdfs.READ_TIMEOUT_S", 0.2)
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        place = f"webhdfs://127.0.0.1:{silent.getsockname()[1]}/x"
        with pytest.raises(StorageError, match="timed out; retry"):
            Location.parse(place).exists()


def test_a_webhdfs_that_answers_late_is_waited_for(monkeypatch, socket_enabled):
    monkeypatch.setattr("trainfeed.files.stores.webhdfs.CONNECT_TIMEOUT_S", 0.1)
    told = b'{"RemoteException": {"exception": "FileNotFoundException", "message": "no /x"}}'
    head = f"HTTP/1.1 404 Not Found\r\nContent-Length: {len(told)}\r\nConnection: close\r\n\r\n"
    answer = head.encode() + told
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen()

        def serve():
            caller, _ = server.accept()
            with caller:
                caller.recv(4096)
                threading.Event().wait(0.4)
                caller.sendall(answer)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        place = f"webhdfs://127.0.0.1:{server.getsockname()[1]}/x"
        assert not Location.parse(place).exists()
        thread.join(10)


def test_a_webhdfs_that_sends_on_to_an_unknown_host_names_that_host():
    error = NewConnectionError(SimpleNamespace(host="datanode.invalid"), "x")
    error.__cause__ = OSError(-2, "Name or service not known")
    reason = _reason(error, "webhdfs://namenode:9870/x")
    assert reason == "datanode.invalid: name or service not known"


@pytest.mark.parametrize("number", sorted(errno.errorcode))
def test_every_errno_has_its_class(number: int) -> None:
    name = errno.errorcode[number]
    expected = next((kind for kind, names in DEFINITE.items() if name in names), StorageError)
    error = raised_by_os(OSError(number, os.strerror(number)))
    assert type(error) is expected
    assert str(error).startswith(f"/the/path: {os.strerror(number).lower()}")
    assert (error.outcome is Outcome.RETRY) == (expected is StorageError)


def test_an_error_without_errno_is_worth_another_try() -> None:
    for error in (TimeoutError(), OSError("odd"), ConnectionResetError()):
        assert type(raised_by_os(error)) is StorageError


# --- hdfs-native -----------------------------------------------------------------------------


def raised_by_native(error: Exception) -> StorageError:
    with pytest.raises(StorageError) as caught, _hdfs._map_errors("hdfs://h:1/x"):
        raise error
    assert str(caught.value).startswith("hdfs://h:1/x: ")
    assert caught.value.__cause__ is error
    return caught.value


def test_every_exception_class_of_hdfs_native_is_known() -> None:
    classes = {
        value
        for module in (hdfs_native, hdfs_native._internal)
        for value in vars(module).values()
        if inspect.isclass(value) and issubclass(value, BaseException)
    }
    # Raised by trash() alone, which nobody calls.
    assert {kind.__name__ for kind in classes} == {"TrashNotEnabledError"}


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (FileNotFoundError("/x"), NotFoundError),
        (FileNotFoundError(f"File does not exist: /x{STACK}"), NotFoundError),
        (FileExistsError(f"/x already exists{STACK}"), ConflictError),
        (IsADirectoryError("/x"), ConflictError),
        (NotImplementedError("hsync"), UnsuitableStoreError),
        (OSError("Connection refused (os error 111)"), StorageError),
        (TimeoutError("no answer within 150 s"), StorageError),
        (RuntimeError("Cannot read past end of the file"), StorageError),
        # Each variant of the client's own error that it has no class for.
        (RuntimeError('DataTransferError("pipeline")'), StorageError),
        (RuntimeError("ChecksumError"), StorageError),
        (RuntimeError('InvalidPath("x")'), UnsuitableStoreError),
        (RuntimeError('InvalidArgument("No NameNode hosts found")'), UnsuitableStoreError),
        (RuntimeError("UrlParseError(EmptyHost)"), UnsuitableStoreError),
        (RuntimeError('OperationFailed("x")'), StorageError),
        (RuntimeError('BlocksNotFound("/x")'), StorageError),
        (RuntimeError('UnsupportedErasureCodingPolicy("x")'), UnsuitableStoreError),
        (RuntimeError('ErasureCodingError("x")'), StorageError),
        (RuntimeError('InternalError("x")'), StorageError),
        (RuntimeError("InvalidRPCResponse(DecodeError)"), StorageError),
        (RuntimeError('SASLError("x")'), AccessDeniedError),
        (RuntimeError('GSSAPIError(GSS_S_FAILURE, 1, "x")'), AccessDeniedError),
        (RuntimeError("NoSASLMechanism"), AccessDeniedError),
        (RuntimeError("XmlParseError(NoRootNode)"), StorageError),
        (RuntimeError('FatalRPCError("java.io.IOException", "x")'), StorageError),
    ],
)
def test_what_hdfs_native_raises_has_its_class(
    error: Exception, expected: type[StorageError]
) -> None:
    assert type(raised_by_native(error)) is expected


def test_java_exceptions_in_the_text_of_hdfs_native_have_their_class() -> None:
    for exception, expected in EXCEPTION_KINDS.items():
        for package in ("java.io.", "org.apache.hadoop.hdfs.protocol.FSLimitException$"):
            escaped = STACK.replace("\n", "\\n").replace("\t", "\\t")
            text = f'RPCError("{package}{exception}", "why it failed{escaped}")'
            error = raised_by_native(RuntimeError(text))
            assert type(error) is expected
            assert f"why it failed ({exception})" in str(error)
            assert "FSNamesystem" not in str(error)


@pytest.mark.parametrize(
    "exception",
    [
        "java.io.IOException",
        "java.io.EOFException",
        "java.net.ConnectException",
        "org.apache.hadoop.hdfs.server.namenode.LeaseExpiredException",
        "org.apache.hadoop.hdfs.server.namenode.NotReplicatedYetException",
        "org.apache.hadoop.hdfs.server.namenode.SafeModeException",
        "org.apache.hadoop.hdfs.protocol.RecoveryInProgressException",
        "org.apache.hadoop.ipc.RetriableException",
        "org.apache.hadoop.ipc.StandbyException",
        "org.apache.hadoop.ipc.RemoteException",
    ],
)
def test_what_passes_is_worth_another_try(exception: str) -> None:
    """HD-03."""
    error = raised_by_native(RuntimeError(f'RPCError("{exception}", "busy")'))
    assert type(error) is StorageError
    assert error.outcome is Outcome.RETRY
    assert exception.rpartition(".")[2] in str(error)


def test_a_panic_and_a_silent_server_become_errors(monkeypatch: pytest.MonkeyPatch) -> None:
    import threading

    class PanicException(BaseException):
        pass

    def panic() -> None:
        raise PanicException("out of bounds")

    with pytest.raises(StorageError, match="out of bounds"), _hdfs._map_errors("hdfs://h:1/x"):
        _hdfs._call(panic)

    released = threading.Event()
    monkeypatch.setattr(_hdfs, "_DEADLINE_S", 0.01)
    with pytest.raises(StorageError, match="no answer within"), _hdfs._map_errors("hdfs://h:1/x"):
        _hdfs._call(released.wait)
    released.set()


# --- webhdfs -----------------------------------------------------------------------------------


def raised_by_web(error: Exception) -> StorageError:
    with pytest.raises(StorageError) as caught, _webhdfs_client.map_errors("webhdfs://h:1/x"):
        raise error
    assert str(caught.value).startswith("webhdfs://h:1/x: ")
    assert caught.value.__cause__ is error
    return caught.value


def test_every_exception_class_of_the_hdfs_package_is_known() -> None:
    classes = {
        value
        for module in (hdfs, hdfs.client, hdfs.util)
        for value in vars(module).values()
        if inspect.isclass(value) and issubclass(value, BaseException)
    }
    assert classes == {hdfs.util.HdfsError}


def test_java_exceptions_of_webhdfs_have_their_class() -> None:
    for exception, expected in EXCEPTION_KINDS.items():
        error = raised_by_web(hdfs.HdfsError(f"why{STACK}", exception=exception))
        assert type(error) is expected
        assert f"why ({exception})" in str(error)
        assert "FSNamesystem" not in str(error)


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (hdfs.HdfsError("odd"), StorageError),
        (hdfs.HdfsError(b"It looks like an HTTP request to an IPC port"), StorageError),
        (hdfs.HdfsError("Authentication failure. Check your credentials."), AccessDeniedError),
        (hdfs.HdfsError("wait", exception="SafeModeException"), StorageError),
        (
            hdfs.HdfsError(
                "The maximum path component name limit of x is exceeded",
                exception="RemoteException",
            ),
            UnsuitableStoreError,
        ),
        (
            hdfs.HdfsError(
                "The directory item limit of /x is exceeded", exception="RemoteException"
            ),
            QuotaExceededError,
        ),
        (KeyError("FileStatus"), StorageError),
        (TypeError("list indices must be integers"), StorageError),
        (ConnectionResetError("reset"), StorageError),
        (TimeoutError(), StorageError),
    ],
)
def test_what_the_hdfs_package_raises_has_its_class(
    error: Exception, expected: type[StorageError]
) -> None:
    assert type(raised_by_web(error)) is expected


def test_every_error_of_the_connections_below_is_worth_another_try() -> None:
    classes = [
        value
        for module in (requests.exceptions, http.client)
        for value in vars(module).values()
        if inspect.isclass(value)
        and issubclass(value, Exception)
        and not issubclass(value, Warning)
        and value.__module__ in {"requests.exceptions", "http.client"}
    ]
    assert len(classes) > 25
    for kind in classes:
        error = kind(*ARGUMENTS.get(kind.__name__, ("why",)))
        assert type(raised_by_web(error)) is StorageError, kind
