"""Drift: how far the samples of a version are from those of earlier ones, by statistics alone."""
