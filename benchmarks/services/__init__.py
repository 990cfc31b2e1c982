"""Rows of services, each beside what the service's own tools take for the same bytes."""
