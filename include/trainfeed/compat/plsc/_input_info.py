"""``set_input_info``: the variables of a batch, one of which gives the shape of an image."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from trainfeed.compat.plsc._checked_values import refused, shape

__all__ = ["image_shape_of_inputs"]


def image_shape_of_inputs(inputs: object) -> tuple[int, ...]:
    """Return the shape of the image among the variables that ``set_input_info`` gets.

    Raises:
        ValueError: ``inputs`` is not one image in float32 and one label in int64.
    """
    rows = [_input(value) for value in _list_of_inputs(inputs)]
    images = [row for row in rows if row["name"] != "label"]
    labels = [row for row in rows if row["name"] == "label"]
    if len(images) != 1 or len(labels) != 1:
        raise refused(
            "one variable called 'label' and one other, the image, because build_network gets one"
            " input",
            [row["name"] for row in rows],
        )
    (image,), (label,) = images, labels
    _require_dtype(image, "float32")
    _require_dtype(label, "int64")
    if _without_batch(label["shape"]) not in {(), (1,)}:
        raise refused("a label of shape [-1, 1]", label["shape"])
    return shape(f"the shape of {image['name']!r}", _without_batch(image["shape"]))


def _list_of_inputs(inputs: object) -> Sequence[Any]:
    if not isinstance(inputs, list | tuple):
        raise refused(
            "a list of variables such as"
            " {'name': 'image', 'shape': [-1, 3, 112, 112], 'dtype': 'float32'}",
            inputs,
        )
    return inputs


def _input(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict) or value.keys() != {"name", "shape", "dtype"}:
        raise refused("a variable with name, shape and dtype", value)
    if not isinstance(value["name"], str) or not isinstance(value["shape"], list | tuple):
        raise refused("a variable whose name is a text and whose shape is a list", value)
    return value


def _without_batch(numbers: Sequence[Any]) -> tuple[Any, ...]:
    """Return a shape without a first number of -1 or None, which stands for the batch."""
    return tuple(numbers[1:] if numbers and numbers[0] in {-1, None} else numbers)


def _require_dtype(row: dict[str, Any], dtype: str) -> None:
    if row["dtype"] != dtype:
        raise refused(f"{row['name']!r} in {dtype}", row["dtype"])
