"""The same work in other engines, each a script for an environment of its own."""
