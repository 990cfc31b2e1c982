"""Measures uploads and downloads of folders."""
