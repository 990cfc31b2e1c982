"""Base64 image files, shuffled and distributed to ranks."""

from trainfeed.conversion.base64._base64_reader import ImageOptions, ImageSample, base64_reader
from trainfeed.conversion.base64._base64_tool import Base64Report, process_base64

__all__ = [
    "Base64Report",
    "ImageOptions",
    "ImageSample",
    "base64_reader",
    "process_base64",
]
