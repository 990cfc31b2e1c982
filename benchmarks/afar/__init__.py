"""Versions that are read from afar, through a cache of the machine."""
