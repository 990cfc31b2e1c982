"""Readers of image folders and of base64 files for an ``Entry``."""

from trainfeed.compat.plsc.readers import base64, jpeg
from trainfeed.compat.plsc.readers.base64 import Base64Images
from trainfeed.compat.plsc.readers.jpeg import ImageFolder

__all__ = ["Base64Images", "ImageFolder", "base64", "jpeg"]
