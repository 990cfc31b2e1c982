"""Makes a new data set: a folder with a commented specification, functions and some records."""

from trainfeed.cli.scaffold.folder import new_dataset

__all__ = ["new_dataset"]
