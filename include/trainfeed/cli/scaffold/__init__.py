"""Makes a new data set: a folder with a commented specification, functions and some records.

``drafted_sets`` makes one for real records; it takes longer to import, and is not lent here.
"""

from trainfeed.cli.scaffold.folder import new_dataset

__all__ = ["new_dataset"]
