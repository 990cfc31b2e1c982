"""``cache``: keeps one pass over a reader for all later passes, in memory or in a file."""

from trainfeed.decorators.caching._cache import cache

__all__ = ["cache"]
