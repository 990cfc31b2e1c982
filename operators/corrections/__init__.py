"""Operators of corrections that people ask for. This face imports nothing, to keep DAGs fast."""
