"""Other libraries' names for what trainfeed does."""

__all__: list[str] = []
