"""Attacks on the front door of the three servers, with figures: ``python -m benchmarks.server``."""
