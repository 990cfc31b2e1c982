"""Tests against other frameworks; `make peers` installs these."""
