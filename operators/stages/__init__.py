"""Operators of a build, from uploads to a version. This face imports nothing, to keep DAGs fast."""
