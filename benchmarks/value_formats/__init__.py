"""Benchmarks of values behind a schema registry."""
