"""What changes or removes published versions: retention, repair, withdrawals."""

__all__: list[str] = []
