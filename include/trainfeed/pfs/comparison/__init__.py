"""Compares the contents of two trees, or a folder with the list of digests that lies in it."""

from trainfeed.pfs.comparison._differences import Comparison, Difference
from trainfeed.pfs.comparison._listed_digests import compare_with_list
from trainfeed.pfs.comparison._two_places import compare_places

__all__ = ["Comparison", "Difference", "compare_places", "compare_with_list"]
