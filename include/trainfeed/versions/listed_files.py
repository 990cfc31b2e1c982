"""The place of a list of many files: what a plan or manifest says of it."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field


class ListedFiles(BaseModel):
    """The place of a list, as the plan or manifest has it: its digest and its number of files."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    sha256: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
    files: Annotated[int, Field(ge=1)]
