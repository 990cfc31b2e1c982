"""Drift on the real year of flights: false alarms, and planted faults that are found."""
