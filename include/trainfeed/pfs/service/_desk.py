"""The state that all routes of files use: areas, threads, shares of users, uploads."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from fastapi import Request
from starlette.responses import Response

from trainfeed.errors import TrainFeedError
from trainfeed.pfs.service._areas import Areas, Place
from trainfeed.pfs.service._disk import Disk, refusal_of_files
from trainfeed.pfs.service._shares import Shares
from trainfeed.pfs.service._uploads import Uploads
from trainfeed.server import caller_of, tell_audit

__all__ = ["Desk", "json_answer"]


@dataclass(frozen=True)
class Desk:
    """The parts of a file server that its routes share.

    Attributes:
        areas: Paths → trees.
        disk: Threads for the work on files.
        shares: Bounds of what one user takes.
        uploads: The open uploads.
    """

    areas: Areas
    disk: Disk
    shares: Shares
    uploads: Uploads

    def user(self, request: Request) -> str:
        """Return the name of the caller, which is that of its user."""
        return caller_of(request).name

    def place(self, request: Request, text: str, user: str) -> Place:
        """Return the place of a path, which the audit of the request gets.

        Raises:
            Refusal: The path is none, or is not one of this user.
        """
        tell_audit(request, text)
        try:
            return self.areas.place(text, user)
        except TrainFeedError as error:
            raise refusal_of_files(error) from error


def json_answer(value: Any, status: int = 200) -> Response:
    """Return a value as JSON in ASCII, which holds names that are not UTF-8 too."""
    return Response(json.dumps(value), status, media_type="application/json")
