"""Variables of this process and of its children: its place, and what programs need to run."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final, NamedTuple

from trainfeed.core.datacenters import is_shared, local_source, local_target, shared_place
from trainfeed.core.whole_numbers import whole
from trainfeed.errors import ConfigError

# --- Values of settings: read from arguments and variables, and checked as places

_SCHEMES: Final = ("file", "hdfs", "pfs", "s3", "webhdfs")
# Where a publication root may be that is read from afar.
_STORES: Final = ("hdfs", "https", "s3", "webhdfs")


def setting(variable: str, given: str | None, default: str | Path) -> str:
    """Return an argument, or else the value of its variable, or else the default.

    Raises:
        ConfigError: The value is empty, or has a NUL.
    """
    value = given if given is not None else os.environ.get(variable, str(default))
    if not value or "\0" in value:
        raise ConfigError(
            f"expected {variable} to name a place, got {shown(value)!r}; set or unset it"
        )
    return value


def is_public(value: str) -> bool:
    """Return whether a setting names a folder of the public area, where nothing is written."""
    return is_shared(value) and shared_place(value).area == "pfs://public"


def is_remote(root: object) -> bool:
    """Return whether a publication root is named by the address of a store."""
    return isinstance(root, str) and root.partition("://")[0] in _STORES and "://" in root


def root_folder(setting: str, value: str) -> str:
    """Return a publication root as an absolute path of this machine.

    Args:
        setting: Name of the setting, for messages.
        value: A path, ``file:///…`` or ``pfs://…``.

    Raises:
        ConfigError: ``value`` is a place of another kind, or the area of ``pfs://…`` is not
            mounted on this machine.
        AccessDeniedError: A link leads out of the area.
    """
    if is_shared(value):
        return local_source(value).rstrip("/")
    scheme, separator, rest = value.partition("://")
    if not separator:
        return str(Path(value).absolute())
    if scheme != "file" or not rest.startswith("/"):
        raise ConfigError(
            f"expected {setting} to be a folder of a mounted file system, got {shown(value)!r};"
            " publication needs its atomic rename"
        )
    return rest


class RootPlace(NamedTuple):
    """Where a publication root is, as this machine works on it.

    Attributes:
        folder: Absolute path of the root; of a root in a bucket, the folder that follows it.
        bucket: Address of a root in a bucket; None for one on a file system.
        is_private: Whether the folder is a private copy in the cache.
    """

    folder: str
    bucket: str | None = None
    is_private: bool = False


def root_place(setting: str, value: str, state: str | None = None) -> RootPlace:
    """Return where a publication root is: a folder, or a bucket with the folder that follows it.

    Args:
        setting: Name of the setting, for messages.
        value: A path, ``file:///…``, ``pfs://…`` or ``s3://bucket/prefix``.
        state: The folder that follows a root in a bucket; None for ``TRAINFEED_STATE``, or a
            private copy in the cache.

    Raises:
        ConfigError, AccessDeniedError: As of ``root_folder``.
    """
    if not value.startswith("s3://"):
        return RootPlace(root_folder(setting, value))
    bucket = place(setting, value).rstrip("/")
    state = os.environ.get(STATE) if state is None else state
    if state is not None:
        return RootPlace(root_folder(STATE, state), bucket)
    return copied_root(setting, value)


def copied_root(setting: str, value: str) -> RootPlace:
    """Return where a publication root is; one in a bucket as a private copy, whatever is set.

    Raises:
        ConfigError, AccessDeniedError: As of ``root_folder``.
    """
    if not value.startswith("s3://"):
        return RootPlace(root_folder(setting, value))
    bucket = place(setting, value).rstrip("/")
    name = hashlib.sha256(bucket.encode()).hexdigest()[:32]
    return RootPlace(
        str(cache_place(None, None)[0] / PRIVATE_ROOTS / name), bucket, is_private=True
    )


def place(variable: str, value: str) -> str:
    """Return a place of files: an absolute path, or a URI as it stands.

    Raises:
        ConfigError: The value is a URI of another scheme than ``file``, ``hdfs``, ``pfs``, ``s3``
            and ``webhdfs``.
    """
    scheme, separator, _ = value.partition("://")
    if not separator:
        return str(Path(value).absolute())
    if scheme not in _SCHEMES:
        raise ConfigError(
            f"expected {variable} to be a path or a URI of {', '.join(_SCHEMES)},"
            f" got {shown(value)!r}"
        )
    if scheme == "s3" and "@" in value:
        raise ConfigError(
            f"expected {variable} as s3://bucket/…, got {shown(value)!r}; keys of object stores are"
            " set by AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
        )
    return value


def shown(value: str) -> str:
    """Return a setting for messages, without the text before an @, which may be a password."""
    return re.sub(r"^([a-z0-9]+://)?.*@", r"\1…@", value)


# --- Variables that tell this process its place: rank, job, user of HDFS, public files, servers

CA_FILE: Final = "TRAINFEED_CA_FILE"
JOB_CODE: Final = "TRAINFEED_JOB_CODE"
JOB_MODEL: Final = "TRAINFEED_JOB_MODEL"
JOB_RETRIES: Final = "TRAINFEED_RETRIES"
JOB_ROOT: Final = "TRAINFEED_JOB_ROOT"
PUBLIC_FOLDER: Final = "TRAINFEED_PUBLIC"
RENDEZVOUS: Final = "TRAINFEED_RENDEZVOUS"
STATE: Final = "TRAINFEED_STATE"
TOKEN_FILE: Final = "TRAINFEED_TOKEN_FILE"  # noqa: S105 (the name of a variable)


def job_places() -> tuple[Path | None, Path | None]:
    """Return publication root and code folder as a rank sees them; None for one that is not set."""
    root, code = (os.environ.get(name) for name in (JOB_ROOT, JOB_CODE))
    return Path(root) if root else None, Path(code) if code else None


def job_model() -> str | None:
    """The folder that ``TRAINFEED_JOB_MODEL`` names, relative to the root; None in a training."""
    return os.environ.get(JOB_MODEL) or None


def rank_variables(names: Iterable[str]) -> dict[str, str]:
    """What a cluster tells a rank: the variables of these names that are set."""
    return {name: os.environ[name] for name in names if os.environ.get(name)}


def name_rank(values: Mapping[str, str]) -> None:
    """Set variables of this process, by which frameworks find their rank."""
    os.environ.update(values)


def name_hadoop_user(user: str) -> None:
    """Set ``HADOOP_USER_NAME``, from which the client of HDFS takes the user once per process.

    Raises:
        ConfigError: The variable names another user.
    """
    found = os.environ.setdefault("HADOOP_USER_NAME", user)
    if found != user:
        raise ConfigError(
            f"expected HADOOP_USER_NAME to be {user!r}, or not set, got {found!r}; nothing was"
            " transferred; unset it, or name the same user in both places"
        )


def hadoop_folder() -> Path | None:
    """Return the folder in which the client of HDFS looks for its configuration; None if none."""
    if folder := os.environ.get("HADOOP_CONF_DIR"):
        return Path(folder)
    home = os.environ.get("HADOOP_HOME")
    return Path(home, "etc", "hadoop") if home else None


def kerberos_places() -> dict[str, str]:
    """Return where tickets, keys and realms of Kerberos are, by the variables that are set."""
    names = ("KRB5CCNAME", "KRB5_CLIENT_KTNAME", "KRB5_CONFIG")
    return {name: os.environ[name] for name in names if os.environ.get(name)}


def rendezvous() -> str | None:
    """Where the ranks of this job meet, as a URL for frameworks; None where nothing says it."""
    if os.environ.get("MASTER_ADDR") and os.environ.get("MASTER_PORT"):
        return "env://"
    return os.environ.get(RENDEZVOUS) or None


def public_folder() -> Path | None:
    """Return the public folder of the data centre as this machine sees it; None if it is not set.

    Raises:
        ConfigError: The variable does not name a folder of a mounted file system.
    """
    if PUBLIC_FOLDER not in os.environ:
        return None
    return Path(root_folder(PUBLIC_FOLDER, setting(PUBLIC_FOLDER, None, "")))


def service_files() -> tuple[Path | None, Path | None]:
    """Return the files with token and authorities for servers; None for one that is not set."""
    token, authorities = (os.environ.get(name) for name in (TOKEN_FILE, CA_FILE))
    return Path(token) if token else None, Path(authorities) if authorities else None


# --- The cache of chunks that are read from a store

_CACHE: Final = "TRAINFEED_CACHE"
_CACHE_BYTES: Final = "TRAINFEED_CACHE_BYTES"
# Folder in it of private copies of roots in buckets.
PRIVATE_ROOTS: Final = "followed"
_DEFAULT_CACHE_BYTES: Final = 16 << 30
_SIZE: Final = re.compile(r"([0-9]{1,18}) *(B|KiB|MiB|GiB|TiB|)")
_SIZE_UNITS: Final = {"": 0, "B": 0, "KiB": 10, "MiB": 20, "GiB": 30, "TiB": 40}


def cache_place(folder: str | os.PathLike[str] | None, num_bytes: int | None) -> tuple[Path, int]:
    """Return the folder of the cache and its bound in bytes; an argument precedes its variable.

    The default is 16 GiB in ``~/.cache/trainfeed``.

    Raises:
        ConfigError: A value is not valid; or the account has no home for the default.
    """
    if num_bytes is None and (text := os.environ.get(_CACHE_BYTES)) is not None:
        match = _SIZE.fullmatch(text.strip())
        num_bytes = int(match[1]) << _SIZE_UNITS[match[2]] if match else 0
        if not num_bytes:
            raise ConfigError(f"expected {_CACHE_BYTES} as a size, like 200GiB, got {text[:80]!r}")
    num_bytes = whole("cache_bytes", _DEFAULT_CACHE_BYTES if num_bytes is None else num_bytes, 1)
    if folder is None and (folder := os.environ.get(_CACHE)) is None:
        try:
            return Path("~/.cache/trainfeed").expanduser(), num_bytes
        except RuntimeError as error:
            raise ConfigError(
                f"expected {_CACHE} to name a folder, it is not set: {error}"
            ) from error
    named = os.fspath(local_target(folder))
    if not named or "://" in named or "\0" in named:
        raise ConfigError(
            f"expected {_CACHE} or cache= to name a folder of this machine, got {shown(named)!r}"
        )
    return Path(named).absolute(), num_bytes


# --- The variables of processes that this one starts: what programs need

_PACKAGES: Final = Path(__file__).parents[3]
# Variables for the code of data sets. All others stay out, because the environment of an Airflow
# worker has connections and keys.
_INHERITED: Final = (
    "CUDA_VISIBLE_DEVICES",
    "HOME",
    "LANG",
    "LC_ALL",
    "LD_LIBRARY_PATH",
    "OMP_NUM_THREADS",
    "PATH",
    "TMPDIR",
    PUBLIC_FOLDER,
    "TRAINFEED_FAULTS",
    "TZ",
)
# Variables for the clients of storage: names, places, and the place of a Kerberos ticket.
# The words of a command line that bash completes, and the number of the one at the cursor.
_OF_BASH: Final = ("COMP_WORDS", "COMP_CWORD")
_OF_STORAGE: Final = (
    "HADOOP_CONF_DIR",
    "HADOOP_HOME",
    "HADOOP_PROXY_USER",
    "HADOOP_TOKEN_FILE_LOCATION",
    "HADOOP_USER_NAME",
    "KRB5CCNAME",
    "KRB5_CLIENT_KTNAME",
    "KRB5_CONFIG",
    "SSL_CERT_DIR",
    "SSL_CERT_FILE",
)
# Variables for clients of object stores, with keys.
_OF_OBJECT_STORES: Final = (
    "AWS_ACCESS_KEY_ID",
    "AWS_CA_BUNDLE",
    "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE",
    "AWS_CONTAINER_CREDENTIALS_FULL_URI",
    "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
    "AWS_DEFAULT_REGION",
    "AWS_ENDPOINT_URL",
    "AWS_ENDPOINT_URL_S3",
    "AWS_REGION",
    "AWS_ROLE_ARN",
    "AWS_ROLE_SESSION_NAME",
    "AWS_SECRET_ACCESS_KEY",
    "AWS_SESSION_TOKEN",
    "AWS_WEB_IDENTITY_TOKEN_FILE",
)
# Variables for readers of a publication root in a bucket.
_OF_FAR_ROOT: Final = (*_OF_OBJECT_STORES, _CACHE, _CACHE_BYTES)
# Each of these is enough for a client.
_KEYS_OF_OBJECT_STORES: Final = (
    ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"),
    ("AWS_ROLE_ARN", "AWS_WEB_IDENTITY_TOKEN_FILE"),
    ("AWS_CONTAINER_CREDENTIALS_FULL_URI",),
    ("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",),
)
# Variables for spark-submit: where Java and the settings of clusters are.
_OF_SPARK: Final = (
    "JAVA_HOME",
    "KUBECONFIG",
    "SPARK_CONF_DIR",
    "SPARK_HOME",
    "SPARK_LOCAL_DIRS",
    "SPARK_LOCAL_IP",
    "USER",
    "YARN_CONF_DIR",
)
# Spark gives every Python worker the folders of its executor under this name.
_EXECUTOR_FOLDERS: Final = "SPARK_LOCAL_DIRS"


def training_environ(
    package: str, job: Mapping[str, str], *, with_keys: bool = False
) -> dict[str, str]:
    """Return the variables for a training process: those that programs need, no credentials.

    Args:
        package: Folder of the package trainfeed; becomes the first of ``PYTHONPATH``.
        job: Variables of the job.
        with_keys: Whether keys of object stores are among them, and the cache for what is read
            there.
    """
    kept = _kept((*_INHERITED, *(_OF_FAR_ROOT if with_keys else ())))
    paths = [package, *filter(None, [os.environ.get("PYTHONPATH")])]
    # No bytecode: Python compares a cached compilation by size and second only, while the code of a
    # job is identified by a digest.
    fixed = {"PYTHONDONTWRITEBYTECODE": "1", "PYTHONUNBUFFERED": "1"}
    return {**kept, **job, **fixed, "PYTHONPATH": os.pathsep.join(paths)}


def command_environ() -> dict[str, str]:
    """Return all variables of this process, for a command that it runs with the same rights.

    With ``PYTHONPATH``, the command finds the same package trainfeed.
    """
    paths = [str(_PACKAGES), *filter(None, [os.environ.get("PYTHONPATH")])]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}


def bash_words() -> tuple[str, str] | None:
    """Return the words that bash asks to complete, and the number of the last; None without."""
    words, number = (os.environ.get(name) for name in _OF_BASH)
    return None if words is None or number is None else (words, number)


def name_bash_words(words: str, number: int) -> None:
    """Tell what completes in this process other words than bash has told."""
    os.environ.update(zip(_OF_BASH, (words, str(number)), strict=True))


def object_store_address() -> tuple[str, Path | None]:
    """Return the address of object stores, empty for that of AWS, and the authorities for it.

    Raises:
        ConfigError: No variable says where keys are; a client would ask the network for them.
    """
    if not any(all(map(os.environ.get, names)) for names in _KEYS_OF_OBJECT_STORES):
        raise ConfigError(
            "expected AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or where keys are"
            " (AWS_WEB_IDENTITY_TOKEN_FILE with AWS_ROLE_ARN, AWS_CONTAINER_CREDENTIALS_…), got"
            " none of them; no store was asked, nor the metadata service of a machine"
        )
    address = os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL") or ""
    authorities = os.environ.get("AWS_CA_BUNDLE")
    return address, Path(authorities) if authorities else None


def name_object_store(settings: Mapping[str, str]) -> None:
    """Give this process the keys and the address of object stores, in place of those that it has.

    Args:
        settings: Variable → value, of the variables by which clients find object stores; the
            others are removed, so keys of two origins are never mixed.

    Raises:
        ConfigError: A name is none of these variables.
    """
    if unknown := sorted(settings.keys() - {*_OF_OBJECT_STORES}):
        raise ConfigError(f"expected {', '.join(_OF_OBJECT_STORES)}, got {', '.join(unknown)}")
    for name in _OF_OBJECT_STORES:
        os.environ.pop(name, None)
    os.environ.update(settings)


def worker_environ(*, with_keys: bool = False) -> dict[str, str]:
    """Return the variables for a process that runs preprocessing functions.

    Besides the variables that programs need, these are the ones for clients of storage: the
    process reads landing files or logs, and writes spill files.

    Args:
        with_keys: Whether keys of object stores are among them: ``Environment.uses_object_stores``.
    """
    return _kept((*_INHERITED, *_OF_STORAGE, *(_OF_OBJECT_STORES if with_keys else ())))


def spark_environ(*, with_keys: bool = False) -> dict[str, str]:
    """Return the variables for ``spark-submit``: those of ``worker_environ``, and its own."""
    return {**worker_environ(with_keys=with_keys), **_kept(_OF_SPARK)}


def executor_environ() -> dict[str, str]:
    """Return the variables that executors get from here: the account of HDFS, and faults."""
    return _kept(("HADOOP_USER_NAME", "TRAINFEED_FAULTS"))


def local_folder_of_executor() -> str | None:
    """Return a folder that Spark removes with its executor; None outside of an executor."""
    return os.environ.get(_EXECUTOR_FOLDERS, "").split(",")[0] or None


def _kept(names: Iterable[str]) -> dict[str, str]:
    return {name: os.environ[name] for name in names if name in os.environ}
