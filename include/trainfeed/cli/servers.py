"""``trainfeed dispatch`` and ``token``: the master that lends chunks, and tokens; nothing heavy."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from trainfeed.cli.arguments import (
    CaFile,
    ServerOptions,
    TokenFileOption,
    Tokens,
    with_options,
)
from trainfeed.cli.command_groups import command
from trainfeed.cli.printing import (
    Message,
    Part,
    Result,
    Table,
    print_message,
    with_dry_run,
    with_json,
)
from trainfeed.cli.targets import RangeWord, Target, name_argument
from trainfeed.core.intervals import format_time
from trainfeed.errors import ConfigError
from trainfeed.serving.server import (
    TokenFile,
    TokenLine,
    new_token,
    parse_expiry,
    revoke_tokens,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from trainfeed.serving.dispatch import PassReport


# --- ``trainfeed dispatch``: a master that lends chunks to trainers that come and go

dispatch = typer.Typer(
    help="Serve chunks of versions to trainers that come and go.",
    epilog="Example: trainfeed dispatch status http://127.0.0.1:8790",
    no_args_is_help=True,
)

_PORT: Final = 8790
_COLUMNS: Final = ("pass_number", "tasks", "done", "failed", "leases", "timeouts", "failures",
                   "returns", "ignored")  # fmt: skip


@command(
    dispatch,
    "serve",
    "dispatch serve flights 2013-01 --split train --tokens tokens.txt --state master.sqlite",
)
@with_options("server", ServerOptions, port=_PORT)
def serve(  # noqa: PLR0913 (each is an option)
    name: Annotated[str, name_argument("NAME[@TAG][/RANGE]; without a range, all of the tag.")],
    asked: RangeWord = None,
    *,
    server: ServerOptions,
    split: Annotated[str, typer.Option(help="Split that is served.")],
    state: Annotated[
        Path, typer.Option(help="File of the master's state, on a disk of this machine.")
    ],
    chunks_per_task: Annotated[int, typer.Option(help="Chunks that are lent as one.")] = 1,
    seed: Annotated[int, typer.Option(help="Seed of the order of tasks.")] = 0,
    passes: Annotated[
        int | None, typer.Option(help="Passes after which the master ends; by default never.")
    ] = None,
    lease_seconds: Annotated[
        float, typer.Option(help="Time after which a silent trainer loses its tasks.")
    ] = 60.0,
    hold_seconds: Annotated[
        float, typer.Option(help="Time after which every trainer loses a task.")
    ] = 3600.0,
    max_failures: Annotated[
        int, typer.Option(help="Failures and time-outs in a pass after which a task has failed.")
    ] = 3,
    linger_seconds: Annotated[
        float, typer.Option(help="Time that the master answers after its last pass.")
    ] = 10.0,
) -> None:
    """Serve the chunks of a range to trainers.

    Until SIGTERM, or until the last pass has ended.
    Prints an account of each pass. Status 1: tasks failed too often, and their chunks were not
    read. The same command goes on after a kill.
    """
    from trainfeed.serving.dispatch import MasterOptions, QueueOptions, TaskList, serve_master

    rules = QueueOptions(lease_seconds, hold_seconds, max_failures, passes)
    options = MasterOptions(state, rules, linger_seconds)
    target = Target.parse(name, asked)
    if target.generation is not None:
        raise ConfigError(f"expected NAME[@TAG] and a RANGE without gNNNN, got {str(target)!r}")
    name = target.tagged_name
    tasks = TaskList.of_range(name, target.asked, split, chunks_per_task=chunks_per_task, seed=seed)

    def ready(url: str) -> None:
        print_message(f"{url} lends {tasks.num_tasks} tasks of {name}, split {split}")

    reports = serve_master(tasks, options, server.settings(), on_ready=ready)
    has_failed = any(report.failed for report in reports)
    Result(None, _passes(reports), (), Result.FAILED if has_failed else 0).print(as_json=False)


@command(dispatch, "status", "dispatch status http://127.0.0.1:8790")
@with_json
def status(
    url: Annotated[str, typer.Argument(help="Address of the master.")],
    *,
    token_file: TokenFileOption = None,
    ca_file: CaFile = None,
) -> Result:
    """Show what a master serves, and its passes.

    The current pass, and those before.
    Status 1: tasks of the current or the last pass failed too often.
    """
    from trainfeed.serving.dispatch import MasterClient
    from trainfeed.serving.server import Access

    access = Access(token_file=token_file, ca_file=ca_file)
    with MasterClient(url, access, patience_seconds=10.0) as client:
        found = client.status()
    served = found.served.model_dump(exclude={"manifests"})
    shown = Table.of_pairs({**served, "todo": found.todo, "pending": found.pending})
    passes = _passes([*found.ended, *([] if found.is_over else [found.current])])
    has_failed = found.current.failed or any(report.failed for report in found.ended[-1:])
    return Result(
        found.model_dump(mode="json"), [shown, *passes], (), Result.FAILED if has_failed else 0
    )


def _passes(reports: Sequence[PassReport]) -> Iterator[Part]:
    yield Table(_COLUMNS, [report.model_dump() for report in reports])
    for report in reports:
        for failed in report.failed_tasks:
            yield Message(
                f"pass {report.pass_number}: task {failed.task} failed {failed.failures} times,"
                f" the last time: {failed.reason}"
            )


# --- ``trainfeed token``: the tokens of servers, which a file has as digests

token = typer.Typer(
    help="Make, list and revoke the tokens of servers.",
    epilog="Example: trainfeed token new trainer --tokens tokens.txt --scopes train > token.txt",
    no_args_is_help=True,
)


_TOKEN_COLUMNS: Final = ("name", "digest", "scopes", "expires", "state")
_DIGEST_CHARS: Final = 12


@command(token, "new", "token new trainer --tokens tokens.txt --scopes train > token.txt")
def new(
    name: Annotated[str, typer.Argument(help="Name of the caller, for audit and limits.")],
    *,
    tokens: Tokens,
    scopes: Annotated[
        str,
        typer.Option(help="What the token is good for, such as train,read; * for every route."),
    ],
    expires: Annotated[
        str | None, typer.Option(help="Day or time in UTC from which the token is void.")
    ] = None,
) -> None:
    """Print a new token, once; the file has only its digest.

    A running server knows it at once.
    """
    try:
        until = None if expires is None else parse_expiry(expires)
    except ValueError:
        raise ConfigError(f"expected a day such as 2027-01-31, got {expires!r}") from None
    token = new_token(tokens, name, scopes=scopes, expires=until)
    typer.echo(token)
    print_message(f"the token of {name} is printed once; {tokens} has its digest")


@command(token, "ls", "token ls --tokens tokens.txt")
@with_json
def list_tokens(*, tokens: Tokens) -> Result:
    """List the tokens of a file: names, scopes and ends.

    A token itself is nowhere: its digest is that of the file. Status 2 when a line is wrong; a
    server accepts no request then.
    """
    rows = [_token_row(line) for line in TokenFile(tokens).lines]
    shown = [
        {**row, "scopes": ",".join(row["scopes"]), "digest": row["digest"][:_DIGEST_CHARS]}
        for row in rows
    ]
    return Result(rows, Table(_TOKEN_COLUMNS, shown))


@command(token, "revoke", "token revoke trainer --tokens tokens.txt")
@with_json
@with_dry_run("Only show which tokens would be revoked.")
def revoke(
    name: Annotated[str, typer.Argument(help="Name of the caller.")],
    *,
    tokens: Tokens,
    digest: Annotated[
        str | None,
        typer.Option(help="Only the token whose digest begins so; by default all of the name."),
    ] = None,
    dry_run: bool = False,
) -> Result:
    """Revoke the tokens of a caller: servers refuse them at once.

    Their lines become comments in the file. A server whose file has no token left accepts no
    request until one is made.
    """
    lines = revoke_tokens(tokens, name, digest=digest, dry_run=dry_run)
    digests = ", ".join(line.proof[:_DIGEST_CHARS] for line in lines)
    verb = "would be revoked" if dry_run else "revoked"
    return Result(
        {"revoked": [_token_row(line) for line in lines], "dry_run": dry_run},
        f"{len(lines)} of {name} {verb}: {digests}",
    )


def _token_row(line: TokenLine) -> dict[str, Any]:
    caller = line.caller
    return {
        "name": caller.name,
        "digest": line.proof,
        "scopes": sorted(caller.scopes),
        "expires": None if caller.expires is None else format_time(caller.expires),
        "state": "expired" if caller.is_expired(datetime.now(UTC)) else "valid",
    }
