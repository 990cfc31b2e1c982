"""The originals of public sets: files that a folder or an installed package has, as records."""

from trainfeed.publicsets.originals._computed_images import computed_images
from trainfeed.publicsets.originals._found_originals import Originals, Reader
from trainfeed.publicsets.originals._manual_paragraphs import manual_paragraphs
from trainfeed.publicsets.originals._mnist_files import mnist_files
from trainfeed.publicsets.originals._packaged_lines import departures, small_digits

__all__ = [
    "Originals",
    "Reader",
    "computed_images",
    "departures",
    "manual_paragraphs",
    "mnist_files",
    "small_digits",
]
