"""The clients of every server of trainfeed, without a web framework."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trainfeed.lazy_faces import on_demand

if TYPE_CHECKING:
    from trainfeed.server.client._byte_client import ByteClient, Reply
    from trainfeed.server.client._service_client import ServiceClient
    from trainfeed.server.client._shown_access import Access

__all__ = ["Access", "ByteClient", "Reply", "ServiceClient"]

# Each of the two clients has a library of its own, and a program uses one of them.

__getattr__ = on_demand(__name__, __file__)
