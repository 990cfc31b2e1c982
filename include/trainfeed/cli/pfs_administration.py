"""``trainfeed pfs serve`` and ``user``: the file server of a data centre, and its users."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Final, NamedTuple

import typer

from trainfeed.cli.arguments import ServerOptions, with_options
from trainfeed.cli.command_groups import command
from trainfeed.cli.printing import Message, Result, Table, error_console, print_message, with_json
from trainfeed.errors import ConfigError
from trainfeed.serving.pfs.ceph import CephProgram, SharedStorage, open_shared_storage
from trainfeed.serving.pfs.user_keys import EndedSessions
from trainfeed.serving.pfs.users import (
    AddedUser,
    HomeWish,
    UserState,
    add_user,
    list_users,
    public_problems,
    remove_user,
)

# --- ``trainfeed pfs serve``: the file server of a data centre, for machines without a mount

_PORT: Final = 8792
_MIB: Final = 1 << 20


@with_options("server", ServerOptions, port=_PORT)
def serve(  # noqa: PLR0913 - options of a command
    folder: Annotated[
        Path, typer.Argument(help="Folder of the data centre, with home/USER and public.")
    ],
    *,
    server: ServerOptions,
    datacenter: Annotated[
        str | None, typer.Option(help="Name in /pfs/NAME/…; by default that of the folder.")
    ] = None,
    rate: Annotated[
        float, typer.Option(min=0.1, help="Mebibytes of files per second of one user.")
    ] = 1024,
    user_requests: Annotated[
        int, typer.Option(min=1, help="Most requests of one user at once.")
    ] = 32,
    uploads: Annotated[
        int, typer.Option(min=1, help="Most unfinished uploads of one user that are open.")
    ] = 64,
    memory: Annotated[
        int, typer.Option(min=1, help="Mebibytes of bodies in memory at once, of all users.")
    ] = 64,
    small_files: Annotated[
        int,
        typer.Option(
            min=1, help="Most descriptors of small files and their folders, of all requests."
        ),
    ] = 600,
    local: Annotated[
        bool,
        typer.Option("--local", help="Plain folders of this machine are the storage, no mount."),
    ] = False,
    max_requests: Annotated[
        int, typer.Option(min=1, help="Most requests at once, of which one user gets half.")
    ] = 64,
    time_limit: Annotated[
        float, typer.Option(min=15, help="Seconds for one request: a chunk of 4 MiB at most.")
    ] = 120.0,
) -> None:
    """Serve homes and public files to users with a token.

    Until SIGTERM; the scope of the token is pfs.
    The name of a token, or of a client certificate, is the name of its user. A user reads and
    writes below /pfs/NAME/home/USER, and reads /pfs/NAME/public.
    """
    from trainfeed.serving.pfs.file_server import FileServerSettings, serve_files
    from trainfeed.serving.pfs.limits import FileLimits
    from trainfeed.serving.server import Limits

    requests = Limits(
        requests=max_requests, caller_requests=user_requests, request_seconds=time_limit
    )
    limits = FileLimits(
        bytes_per_second=rate * _MIB,
        uploads=uploads,
        buffered_bytes=memory * _MIB,
        small_descriptors=small_files,
    )
    name = folder.absolute().name if datacenter is None else datacenter
    settings = FileServerSettings(server.settings(requests), name, folder, limits, is_local=local)
    serve_files(settings, on_ready=lambda url: print_message(f"{url} serves /pfs/{name}"))


# --- ``trainfeed pfs user``: users of shared storage on a CephFS, for its administrator

_WHERE: Final = "--mount /mnt/cephfs --datacenter dc1"
_ADD: Final = f"pfs user add alice {_WHERE} --quota 100GiB --keyring alice.keyring"
_COLUMNS: Final = ("user", "owner", "used", "quota", "files", "most files", "problems")
_UNITS: Final = {"": 1, "B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40}
_SIZE: Final = re.compile(r"([0-9]{1,15})(B|KiB|MiB|GiB|TiB)")
_COUNT: Final = re.compile(r"([0-9]{1,15})()")
_NO_LIMIT: Final = "none"

app = typer.Typer(
    help="Manage users of shared storage on a CephFS.",
    epilog=f"Example: trainfeed {_ADD}",
    no_args_is_help=True,
)

Name = Annotated[str, typer.Argument(help="Name of the user.")]


@dataclass(frozen=True)
class StorageOptions:
    """The options of every command on users: the CephFS, and who administers it."""

    mount: Annotated[
        Path,
        typer.Option(help="Folder on which the root of the CephFS is mounted by an administrator."),
    ]
    datacenter: Annotated[str, typer.Option("--datacenter", help="Name of the data centre.")]
    conf: Annotated[
        Path | None, typer.Option(help="Configuration of the cluster; by default that of ceph.")
    ] = None
    client: Annotated[str, typer.Option(help="Key of the administrator, without 'client.'.")] = (
        "admin"
    )
    file_system: Annotated[
        str | None, typer.Option(help="Name of the CephFS, if the cluster has several.")
    ] = None

    def opened(self) -> SharedStorage:
        """Return the storage; raises as ``open_shared_storage`` does."""
        program = CephProgram(self.conf, self.client)
        return open_shared_storage(program, self.mount, self.datacenter, self.file_system)


@app.callback()
def _commands() -> None:
    """Manage users of shared storage on a CephFS."""


@command(app, "add", _ADD)
@with_json
@with_options("storage", StorageOptions)
def add(  # noqa: PLR0913 (one for each option)
    user: Name,
    *,
    storage: StorageOptions,
    quota: Annotated[
        str | None, typer.Option(help="Most bytes, such as 100GiB; none for no limit.")
    ] = None,
    quota_files: Annotated[
        str | None, typer.Option(help="Most files and folders; none for no limit.")
    ] = None,
    uid: Annotated[int | None, typer.Option(min=0, help="Account that owns the home.")] = None,
    gid: Annotated[int | None, typer.Option(min=0, help="Group of the home.")] = None,
    keyring: Annotated[
        Path | None, typer.Option(help="File for the key (mode 600); required for a new key.")
    ] = None,
    print_key: Annotated[
        bool, typer.Option("--print-key", help="Print the key to standard output, too.")
    ] = False,
) -> Result:
    """Make the home, quotas and key of a user, or change them.

    And the namespace of the home; only what differs is changed.
    Options that are left out change nothing. After a kill the same command goes on.
    """
    wish = HomeWish(
        None if quota is None else _limit("--quota", quota, _SIZE, "a size such as 100GiB"),
        None if quota_files is None else _limit("--quota-files", quota_files, _COUNT, "a number"),
        uid,
        gid,
    )
    with error_console().status(f"user {user}"):
        added = add_user(storage.opened(), user, wish, keyring)
    key = added.key if print_key else None
    return Result(
        {**asdict(added), "keyring": keyring and str(keyring), "key": key},
        [*_added_text(added), *([] if key is None else [_Key(key)])],
    )


@command(app, "rm", f"pfs user rm alice {_WHERE}")
@with_json
@with_options("storage", StorageOptions)
def rm(
    user: Name,
    *,
    storage: StorageOptions,
    remove_home: Annotated[
        bool, typer.Option("--remove-home", help="Remove the home with all files, too.")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Confirm --remove-home.")] = False,
) -> Result:
    """Revoke a user's key, and cut off its clients.

    The home stays, unless --remove-home.
    After a kill the same command goes on.
    """
    if remove_home and not yes:
        raise ConfigError(
            f"expected --yes beside --remove-home, because all files of {user} are removed for"
            " good; nothing was changed; add --yes"
        )
    with error_console().status(f"user {user}"):
        removed = remove_user(storage.opened(), user, remove_home=remove_home)
    kept = removed.kept_home and str(removed.kept_home)
    what = f"home kept: {kept}" if kept else ""
    if removed.removed_home:
        what = "home removed; the cluster deletes the bytes in the background"
    text = [
        f"{user}: {'key revoked' if removed.had_key else 'had no key any more'}",
        *_ended_text(removed.ended),
        *([what] if what else []),
    ]
    return Result({**asdict(removed), "kept_home": kept}, map(Message, text))


@command(app, "ls", f"pfs user ls {_WHERE}")
@with_json
@with_options("storage", StorageOptions)
def ls(*, storage: StorageOptions) -> Result:
    """List users with use and quotas.

    Status 3 when anything differs from what add makes.
    """
    with error_console().status("users"):
        opened = storage.opened()
        users, of_public = list_users(opened), public_problems(opened)
    has_problems = bool(of_public) or any(each.problems for each in users)
    return Result(
        {"public": list(of_public), "users": [asdict(each) for each in users]},
        [Table(_COLUMNS, [_row(each) for each in users]), *map(Message, of_public)],
        status=Result.DAMAGED if has_problems else 0,
    )


def _limit(option: str, text: str, pattern: re.Pattern[str], expected: str) -> int:
    if text == _NO_LIMIT:
        return 0
    match = pattern.fullmatch(text)
    if match is None or not (limit := int(match[1]) * _UNITS[match[2]]):
        raise ConfigError(
            f"{option}: expected {expected}, or {_NO_LIMIT} for no limit, got {text!r}; nothing was"
            " changed"
        )
    return limit


class _Key(NamedTuple):
    """A key as a part of a text, as files of keys have it."""

    text: str

    def print(self) -> None:
        """Print it, with its own end of line."""
        typer.echo(self.text, nl=False)


def _added_text(added: AddedUser) -> Iterator[Message]:
    for change in added.changes or ("nothing to change",):
        yield Message(f"{added.user}: {change}")
    yield from map(Message, _ended_text(added.ended))


def _ended_text(ended: EndedSessions) -> Iterator[str]:
    if ended.addresses:
        yield (
            f"clients cut off: {', '.join(ended.addresses)}; blocked for {ended.blocked_s} s; the"
            " same machine may mount again"
        )


def _row(state: UserState) -> list[object]:
    return [
        state.user,
        state.owner,
        state.used_bytes,
        state.quota_bytes or _NO_LIMIT,
        state.used_files,
        state.quota_files or _NO_LIMIT,
        list(state.problems),
    ]
