"""Benchmarks; docs/authors has their results."""
