"""Operators of trainings and their models. This face imports nothing, to keep DAGs fast."""
