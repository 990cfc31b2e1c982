"""A trainer's side of a master: what is served, reports, and tasks to read."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from typing import Any, Final, Self, TypeVar

from pydantic import ValidationError

from trainfeed.errors import ServiceError
from trainfeed.serving.dispatch.messages import Answer, Ask, Failure, Lease, Message, Served, Status
from trainfeed.serving.server import Access, Client

_M = TypeVar("_M", bound=Message)
_TRAINER_BYTES: Final = 16


class MasterClient:
    """One pass of one trainer, for one thread.

    A request whose answer was lost is sent again with its number, and the master answers it as it
    did before.

    Args:
        url: The master.
        access: Token and certificates; None for the files that the environment names.
        patience_seconds: Time that a request may take while the master is away.

    Attributes:
        name: Random name of this pass of the trainer.

    Raises:
        ConfigError: As for ``Client``.
    """

    def __init__(
        self, url: str, access: Access | None = None, *, patience_seconds: float = 60.0
    ) -> None:
        self.url = url
        self.name = secrets.token_hex(_TRAINER_BYTES)
        self._service = Client(url, access, patience_seconds=patience_seconds)
        self._number = 0

    def served(self) -> Served:
        """Return what the master serves; raises as ``ask`` does."""
        return self._parsed(Served, self._service.get("/data"))

    def status(self) -> Status:
        """Return the state of the master; raises as ``ask`` does."""
        return self._parsed(Status, self._service.get("/status"))

    def ask(
        self,
        served: Served,
        *,
        finished: Sequence[Lease] = (),
        failed: Sequence[Failure] = (),
        returned: Sequence[Lease] = (),
        held: Sequence[Lease] = (),
        want: int = 0,
    ) -> Answer:
        """Report on tasks, and lease up to ``want`` others.

        Args:
            served: The data and the pass that this trainer reads.
            finished: Tasks whose samples were used.
            failed: Tasks that could not be read.
            returned: Tasks that are given back unread.
            held: Tasks that are still in work.
            want: Number of tasks to lease.

        Raises:
            ServiceUnreachableError: The master gave no answer in time; it may have taken the
                reports.
            ServiceDeniedError: The token is refused.
            ServiceRefusedError: The master serves other data now.
            ServiceError: The master failed.
        """
        self._number += 1
        message = Ask(
            data=served.digest,
            pass_number=served.pass_number,
            trainer=self.name,
            number=self._number,
            finished=tuple(finished),
            failed=tuple(failed),
            returned=tuple(returned),
            held=tuple(held),
            want=want,
        )
        return self._parsed(Answer, self._service.post("/ask", message.model_dump_json().encode()))

    def close(self) -> None:
        """Close the connection."""
        self._service.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _parsed(self, model: type[_M], found: Any) -> _M:
        try:
            return model.model_validate(found)
        except ValidationError as error:
            raise ServiceError(
                f"expected the answer of a master from {self.url}, got other JSON; is another"
                " server listening there?"
            ) from error
