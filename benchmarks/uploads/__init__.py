"""Uploads of labels: processor time of the check, of the table of labels, and of the join."""
