"""Base64 image files, shuffled and distributed to ranks; images as normalised arrays."""

from trainfeed.conversion.base64._base64_reader import base64_reader
from trainfeed.conversion.base64._base64_tool import Base64Report, process_base64
from trainfeed.conversion.base64._image_samples import ImageOptions, ImageSample, image_sample
from trainfeed.conversion.base64._images import require_pillow

__all__ = [
    "Base64Report",
    "ImageOptions",
    "ImageSample",
    "base64_reader",
    "image_sample",
    "process_base64",
    "require_pillow",
]
