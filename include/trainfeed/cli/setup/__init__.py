"""What data sets begin with: the publication root, a folder of their own, public data, uploads."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trainfeed.lazy_faces import on_demand

if TYPE_CHECKING:
    from trainfeed.cli.setup._init import init
    from trainfeed.cli.setup._new import new, schema
    from trainfeed.cli.setup._public import app as public
    from trainfeed.cli.setup._uploads_command import app as uploads

__all__ = ["init", "new", "public", "schema", "uploads"]


__getattr__ = on_demand(__name__, __file__)
