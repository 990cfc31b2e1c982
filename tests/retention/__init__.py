"""Retention over many simulated nights: the clock and the small days are simulated, the code is real."""
