"""Retention over many simulated nights, with the code that runs every night."""
