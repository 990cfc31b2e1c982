"""Figures of the code: files, names and lines, and the functions that one record passes."""
