"""Impressions and clicks of a shop as libFM lines in date folders, and the dictionary of items."""
