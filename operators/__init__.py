"""Thin operators: one stage call each. Imports nothing, on purpose: DAG files pay for it."""
