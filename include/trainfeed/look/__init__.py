"""Everything that only reads: status, outdated versions, differences, lineage."""

__all__: list[str] = []
