"""The tree of a file server: what copies and commands use on a machine without a mount."""

from trainfeed.pfs.remote._server_tree import ServerTree, server_tree

__all__ = ["ServerTree", "server_tree"]
