"""Retention of models: files of a version go; the record of what it was, and its number, stay."""

from trainfeed.retention.models._model_kind import ModelVersions

__all__ = ["ModelVersions"]
