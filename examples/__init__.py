"""Worked examples: real data, all the way from a topic to a model."""
