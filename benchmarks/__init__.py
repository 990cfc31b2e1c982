"""Benchmarks: what they measure is in docs/."""
