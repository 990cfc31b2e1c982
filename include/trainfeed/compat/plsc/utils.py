"""The readers under their names in ``plsc.utils``: scripts change the name of the package alone."""

from trainfeed.compat.plsc.readers import base64 as base64_reader
from trainfeed.compat.plsc.readers import jpeg as jpeg_reader

__all__ = ["base64_reader", "jpeg_reader"]
