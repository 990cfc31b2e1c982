"""Retention of boundary files: those that no interval needs any more, nor the proof of another."""

from trainfeed.retention.boundaries._boundary_kind import BoundaryFiles

__all__ = ["BoundaryFiles"]
