"""From the text that people type to a place in a tree: this machine, a mount, or a server."""

from trainfeed.pfs.places._typed_places import Places

__all__ = ["Places"]
