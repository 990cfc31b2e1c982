"""Thin operators: one stage call each. This face imports nothing, to keep DAG files fast."""
