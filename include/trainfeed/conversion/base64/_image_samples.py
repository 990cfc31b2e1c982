"""Samples from the bytes of image files: checked, mirrored by seed, normalised."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from trainfeed.conversion.base64._images import decode_image
from trainfeed.conversion.sorting import sort_keys
from trainfeed.errors import FormatError

__all__ = ["ImageOptions", "ImageSample", "image_sample"]

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
