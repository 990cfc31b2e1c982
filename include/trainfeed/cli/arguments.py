"""Arguments that commands share: data sets, paths, decisions, servers; nothing heavy."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator
from dataclasses import astuple, dataclass, replace
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from trainfeed.cli.completion import specified
from trainfeed.cli.printing import print_message
from trainfeed.core.accounts import account_name, name_problem
from trainfeed.core.config import Environment, environment_from_environ
from trainfeed.core.datacenters import local_source, local_target
from trainfeed.errors import ConfigError, NotFoundError
from trainfeed.specification import RESERVED_NAMES, did_you_mean
from trainfeed.versions import (
    DatasetFolder,
    follow_environment,
    require_readable_root,
    require_writable_root,
)
from trainfeed.versions.root import data_sets_of
from trainfeed.versions.withdraw import withdrawal_of, withdrawals

if TYPE_CHECKING:
    from trainfeed.serving.server import Limits, ServerSettings

# --- Paths among the arguments of commands, also ``pfs://…``, as paths of this machine


def source_path(text: str) -> Path:
    """Return the path of a file or folder that a command reads."""
    return Path(local_source(text))


def target_path(text: str) -> Path:
    """Return the path of a file or folder that a command writes; refused in the public area."""
    return Path(local_target(text))


# --- The options of a decision: the reason, which only a dry run does without, and the person

Why = Annotated[str | None, typer.Option(help="The reason, which the history keeps.")]
Who = Annotated[str | None, typer.Option(help="By default the account.")]

# Stands where a decision has its reason; a dry run writes it nowhere.
_DRY_RUN: Final = "a dry run"


def named_person(who: str | None) -> str:
    """Return the person who decides, by default the account.

    Raises:
        ConfigError: The name is empty, as that of a variable that is not set, or cannot be printed.
    """
    person = account_name() if who is None else who
    if problem := name_problem("who", person):
        raise ConfigError(f"{problem}; nothing was changed; name the person, or leave --who out")
    return person


def reason_or_dry_run(why: str | None, *, dry_run: bool) -> str:
    """Return the reason of a decision.

    Raises:
        ConfigError: There is none, and this is no dry run.
    """
    if why is None and not dry_run:
        raise ConfigError("expected --why, or --dry-run; nothing was changed")
    return _DRY_RUN if why is None else why


# --- Options that several commands have, as one value


def with_options(
    name: str, kind: type, **defaults: object
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Give a command the fields of a class as options, in place of its parameter of that class.

    Args:
        name: The parameter.
        kind: A data class whose fields are annotated with their options.
        **defaults: Defaults of this command, in place of those of the class.
    """

    def add(command: Callable[..., Any]) -> Callable[..., Any]:
        fields = dict(inspect.signature(kind, eval_str=True).parameters)
        for field, default in defaults.items():
            fields[field] = fields[field].replace(default=default)

        @wraps(command)
        def run(**given: Any) -> Any:
            value = kind(**{field: given.pop(field) for field in fields})
            return command(**given, **{name: value})

        parameters = list[inspect.Parameter]()
        for each in inspect.signature(command, eval_str=True).parameters.values():
            group = fields.values() if each.name == name else (each,)
            parameters += (one.replace(kind=inspect.Parameter.KEYWORD_ONLY) for one in group)
        run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        return run

    return add


# --- Options that the commands of all servers, and of their clients, have

Tokens = Annotated[
    Path, typer.Option(help="Token file of the server: a line with a digest per token.")
]


@dataclass(frozen=True)
class ServerOptions:
    """The options of every command that serves, with the fields of ``ServerSettings``."""

    tokens: Tokens
    host: Annotated[
        str, typer.Option(help="Address to listen on; other machines need a certificate.")
    ] = "127.0.0.1"
    port: Annotated[
        int, typer.Option(min=0, max=65535, help="Port to listen on; 0 takes a free one.")
    ] = 0
    certificate: Annotated[Path | None, typer.Option(help="Certificate of the server, PEM.")] = None
    key: Annotated[Path | None, typer.Option(help="Key of the certificate, PEM, mode 0600.")] = None
    client_ca: Annotated[
        Path | None, typer.Option(help="Authorities of certificates that clients may show, PEM.")
    ] = None
    port_file: Annotated[
        Path | None, typer.Option(help="File that gets the port once the server answers.")
    ] = None
    audit_log: Annotated[
        Path | None, typer.Option(help="File that gets one JSON line per request.")
    ] = None

    def settings(self, limits: Limits | None = None) -> ServerSettings:
        """Return the settings of the server.

        Raises:
            ConfigError: The options contradict each other.
        """
        from trainfeed.serving.server import Limits, ServerSettings

        return replace(ServerSettings(*astuple(self)), limits=limits or Limits())


TokenFileOption = Annotated[
    Path | None,
    typer.Option("--token-file", help="File with the token; by default TRAINFEED_TOKEN_FILE."),
]
CaFile = Annotated[
    Path | None,
    typer.Option(help="Authorities of the server, PEM; by default TRAINFEED_CA_FILE."),
]


# --- The data sets of the environment: their environment, and the folder of one


def readable_environment() -> Environment:
    """Return the environment; refuse a root that is none, which would look like an empty one."""
    env = environment_from_environ()
    follow_environment(env)
    require_readable_root(Path(env.root), env.root_setting)
    return env


def known_folder(name: str) -> DatasetFolder:
    """Return the folder of a data set that has a version or a specification.

    Raises:
        NotFoundError: The data set is unknown; the message has the nearest name.
    """
    return _known_folder(readable_environment(), name)


def _known_folder(env: Environment, name: str) -> DatasetFolder:
    if name in RESERVED_NAMES and name not in data_sets_of(Path(env.root)):
        raise NotFoundError(
            f"expected a data set, got {name!r}, which is no name of one; for models: trainfeed"
            " models ls"
        )
    folder = DatasetFolder(Path(env.root), name)
    if not folder.path.is_dir():
        _require_known(env, name)
    return folder


def _require_known(env: Environment, name: str) -> None:
    known = sorted({*specified(env), *data_sets_of(Path(env.root))})
    if name not in known:
        hint = did_you_mean(name, known) if known else f"make one: trainfeed new {name}"
        raise NotFoundError(
            f"expected a data set of {env.datasets} or {env.root}, got {name!r}; {hint}"
        )


# --- What commands say about withdrawn versions: who withdrew them, when and why

# Lines; trainfeed history has all of them.
_MOST: Final = 20


def tell_withdrawal(folder: DatasetFolder, interval: str, generation: int) -> None:
    """Print who withdrew a version that is looked at, and why, if it is withdrawn."""
    if (mark := withdrawal_of(folder, interval, generation)) is not None:
        print_message(f"{mark.told}; readers do not get it")


def newer_withdrawals(folder: DatasetFolder, intervals: Iterable[str]) -> Iterator[str]:
    """Yield who withdrew generations that are newer than those that readers get."""
    told = []
    for interval in intervals:
        readable = folder.readable_generation(interval) or 0
        newer = [mark for mark in withdrawals(folder, interval) if mark.generation > readable]
        told += [f"{mark.told}; readers do not get it" for mark in newer]
    yield from told[:_MOST]
    if len(told) > _MOST:
        more = f"and {len(told) - _MOST} more are withdrawn"
        yield f"{more}: trainfeed history {folder.name} --action withdraw"


# --- The data set that a command corrects: known, and below a root that may be written


def writable_folder(name: str) -> DatasetFolder:
    """Return the folder of a known data set.

    Raises:
        ConfigError: The root is that of public sets.
        NotFoundError: The data set is unknown; the message has the nearest name.
        RootError: The publication root was not made by ``trainfeed init``.
    """
    env = environment_from_environ()
    require_writable_root(env, decides=True)
    return _known_folder(env, name)
