"""The note ``mlflow.json`` of a job's folder: the parts of the job that the server has.

The note is replaced before and after every batch of metrics. A batch that may have been delivered
before a kill is sent again with the same points, which the server takes as one.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final, Self

from trainfeed import canonical_json
from trainfeed.errors import FormatError, NotFoundError
from trainfeed.paths import read_plain
from trainfeed.storage import posix

__all__ = ["NOTE", "DeliveryNote"]

NOTE: Final = "mlflow.json"
_MOST_BYTES: Final = 1 << 16


@dataclass(frozen=True)
class DeliveryNote:
    """The state of a delivery.

    Attributes:
        server: URL of the server.
        experiment: Name of the experiment.
        run: Id of the run; empty before there is one.
        is_described: Whether the run has its parameters, tags and inputs.
        log_bytes: Number of bytes of the metrics log that the run has.
        sent_bytes: The same with the batch that is under way.
        sent_ms: Time stamp of the points of that batch, in milliseconds since 1970.
        status: Status of the run as it was delivered last.
    """

    server: str
    experiment: str
    run: str = ""
    is_described: bool = False
    log_bytes: int = 0
    sent_bytes: int = 0
    sent_ms: int = 0
    status: str = ""

    @classmethod
    def read(cls, home: Path, server: str, experiment: str) -> Self:
        """Return the note of a job's folder; a new one if there is none for this experiment."""
        path = home / NOTE
        try:
            data = read_plain(path, follow=False, max_bytes=_MOST_BYTES)
            found: Any = canonical_json.loads(data, path=str(path))
            note = cls(**found)
        # A note that is damaged costs requests: run and points are found on the server again.
        except (FormatError, NotFoundError, TypeError):
            return cls(server, experiment)
        empty = asdict(cls("", ""))
        is_whole = all(type(getattr(note, name)) is type(value) for name, value in empty.items())
        if not is_whole or (note.server, note.experiment) != (server, experiment):
            return cls(server, experiment)
        return note

    def write(self, home: Path) -> None:
        """Replace the note of a job's folder.

        Raises:
            StorageError: The file cannot be written.
        """
        posix.replace_file(home / NOTE, canonical_json.dumps(asdict(self)))
