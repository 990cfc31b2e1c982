"""Decodes images to arrays with Pillow, an optional dependency that only this module needs."""

from __future__ import annotations

import io
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from trainfeed.errors import ConfigError, FormatError

__all__ = ["decode_image", "require_pillow"]

# Only formats of photographs: every further decoder is one more target for hostile files.
_FORMATS: Final = ("JPEG", "PNG", "BMP", "WEBP")


def require_pillow() -> Any:
    """Return the module that opens images.

    Raises:
        ConfigError: Pillow is not installed.
    """
    try:
        from PIL import Image
    except ImportError as error:
        raise ConfigError(
            "images are decoded by Pillow, which is not installed; install trainfeed[images]"
        ) from error
    return Image


def decode_image(data: bytes, *, max_pixels: int) -> NDArray[np.uint8]:
    """Return the pixels of a JPEG, PNG, BMP or WebP image.

    Args:
        data: Content of the image file.
        max_pixels: Limit for the pixels of an image, checked before it is decoded.

    Returns:
        Shape ``(3, height, width)``: red, green, blue.

    Raises:
        ConfigError: Pillow is not installed.
        FormatError: The data are not an image of these formats, or the image is damaged or too
            large.
    """
    image_module = require_pillow()
    try:
        with image_module.open(io.BytesIO(data), formats=_FORMATS) as image:
            width, height = image.size
            if width * height > max_pixels:
                raise FormatError(
                    f"expected an image of at most {max_pixels} pixels, got {width} by {height};"
                    " raise max_pixels"
                )
            pixels = np.asarray(image.convert("RGB"))
    except image_module.UnidentifiedImageError as error:
        raise FormatError(f"expected an image in {', '.join(_FORMATS)}, got none") from error
    except (OSError, ValueError, SyntaxError, EOFError, OverflowError) as error:
        raise FormatError(f"expected an image in {', '.join(_FORMATS)}: {error}") from error
    except image_module.DecompressionBombError as error:
        raise FormatError(str(error)) from error
    return np.ascontiguousarray(pixels.transpose(2, 0, 1))
