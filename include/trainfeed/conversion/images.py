"""Samples from the bytes of image files: decoded with Pillow, checked, mirrored, normalised."""

from __future__ import annotations

import io
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from trainfeed.conversion.sorting import sort_keys
from trainfeed.errors import ConfigError, FormatError

# --- Decodes images to arrays with Pillow, an optional dependency that only this module needs

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


# --- Samples from the bytes of image files: checked, mirrored by seed, normalised

_HALF: Final = np.uint64(1 << 63)

# Image of shape (3, height, width), float32, and its label.
ImageSample: TypeAlias = tuple[NDArray[np.float32], int]


@dataclass(frozen=True)
class ImageOptions:
    """How images are checked and converted.

    Attributes:
        shape: Height and width that every image must have; None for any size. Images are not
            resized.
        num_classes: Labels must be from 0 to ``num_classes - 1``; None for any label.
        mean: Number that is subtracted from every value of 0 to 255.
        scale: Number by which the difference is divided.
        flip_seed: Mirrors half of the images, chosen by this seed and the line of the image; use
            another seed for each epoch. None mirrors no image.
        max_pixels: Limit for the pixels of an image, checked before it is decoded.
    """

    shape: tuple[int, int] | None = None
    num_classes: int | None = None
    mean: float = 127.5
    scale: float = 128.0
    flip_seed: int | None = None
    max_pixels: int = 1 << 26


def image_sample(data: bytes, label: int, number: int, images: ImageOptions) -> ImageSample:
    """Return an image and its label.

    Args:
        data: Content of the image file.
        label: The label.
        number: Number of the image in its list; decides with ``flip_seed`` about mirroring.
        images: How the image is checked and converted.

    Returns:
        Float32 of shape ``(3, height, width)``, ``(value - mean) / scale``, and the label.

    Raises:
        ConfigError: Pillow is not installed.
        FormatError: The data are no image, or the image or the label is not as ``images`` says.
    """
    pixels = decode_image(data, max_pixels=images.max_pixels)
    _check(pixels, label, images)
    if images.flip_seed is not None and _is_flipped(images.flip_seed, number):
        pixels = pixels[:, :, ::-1]
    image = (pixels.astype(np.float32) - np.float32(images.mean)) / np.float32(images.scale)
    return np.ascontiguousarray(image), label


def _check(pixels: NDArray[np.uint8], label: int, images: ImageOptions) -> None:
    if images.shape is not None and pixels.shape[1:] != images.shape:
        raise FormatError(f"expected an image of {images.shape}, got {pixels.shape[1:]}")
    if images.num_classes is not None and not 0 <= label < images.num_classes:
        raise FormatError(f"expected a label from 0 to {images.num_classes - 1}, got {label}")


def _is_flipped(seed: int, number: int) -> bool:
    return bool(sort_keys(seed, np.array([number], np.uint64))[0] >= _HALF)
