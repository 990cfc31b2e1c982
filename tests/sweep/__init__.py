"""Damage to every kind of file of a publication root, and what readers and commands make of it."""
