"""The error of a schema that cannot be used; its callers say what that means for records."""

from __future__ import annotations


class SchemaError(ValueError):
    """A schema is not valid, is not supported, or does not fit the other one."""
