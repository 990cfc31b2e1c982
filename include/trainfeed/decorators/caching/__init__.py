"""``cache``: one pass over a reader, kept for all that come after it, in memory or in a file."""

from trainfeed.decorators.caching._cache import cache

__all__ = ["cache"]
