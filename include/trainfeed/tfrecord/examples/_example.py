"""Examples and SequenceExamples: messages to Python values and back.

::

    Example         := Features (1)
    SequenceExample := context Features (1), FeatureLists (2)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from trainfeed.tfrecord.examples._feature_values import list_of_value
from trainfeed.tfrecord.examples._features import (
    ListKind,
    RawFeature,
    feature_message,
    key_order,
    map_message,
    message_field,
    scan_entries,
    scan_feature,
    scan_features,
)
from trainfeed.tfrecord.examples._protobuf_wire import decode_varints, iter_fields

__all__ = [
    "FeatureValue",
    "SequenceExample",
    "decode_example",
    "decode_sequence_example",
    "encode_example",
    "encode_sequence_example",
    "scan_example",
]

FeatureValue: TypeAlias = list[bytes] | NDArray[np.float32] | NDArray[np.int64] | None

_FIELD_1: Final = 0x0A
_FIELD_2: Final = 0x12


@dataclass(frozen=True)
class SequenceExample:
    """An Example whose features are lists of features.

    Attributes:
        context: Key → feature of the whole sequence.
        feature_lists: Key → features, one per step.
    """

    context: dict[str, FeatureValue] = field(default_factory=dict)
    feature_lists: dict[str, list[FeatureValue]] = field(default_factory=dict)


def encode_example(features: Mapping[str, Any]) -> bytes:
    """Return the record of an Example, equal to TensorFlow's deterministic serialisation.

    Args:
        features: Key → feature: a value in the form of ``decode_example``, a single value, or a
            list of bytes, of int, or of float. Arrays may have integers in the range of int64,
            float16 or float32; they are stored in C order, without their shape. Python floats are
            rounded to float32. An empty list is a list of bytes; use an empty array for an empty
            list of float or int. None is a feature without a list.

    Returns:
        The record; empty if there are no features.
    """
    return message_field(1, _features_message(features)) if features else b""


def decode_example(record: bytes | bytearray | memoryview) -> dict[str, FeatureValue]:
    """Return the features of an Example, in the order of the record.

    Returns:
        Key → list of bytes, array of float32 ``(n,)``, array of int64 ``(n,)``, or None for a
        feature without a list; all in memory of their own.

    Raises:
        FormatError: The record is not an Example; ``offset_bytes`` counts from its start.
    """
    data = bytes(record)
    return {key: _value_of(data, feature) for key, feature in scan_example(data).items()}


def encode_sequence_example(
    context: Mapping[str, Any], feature_lists: Mapping[str, Sequence[Any]]
) -> bytes:
    """Return the record of a SequenceExample, equal to TensorFlow's deterministic serialisation.

    Args:
        context: See ``features`` of ``encode_example``.
        feature_lists: Key → sequence of features, in the forms that ``encode_example`` takes.
    """
    record = message_field(1, _features_message(context)) if context else b""
    if feature_lists:
        entries = (
            (
                key.encode(),
                b"".join([message_field(1, _feature_message(key, v)) for v in feature_lists[key]]),
            )
            for key in sorted(feature_lists, key=key_order)
        )
        record += message_field(2, map_message(entries))
    return record


def decode_sequence_example(record: bytes | bytearray | memoryview) -> SequenceExample:
    """Return a SequenceExample, in memory of its own.

    Raises:
        FormatError: The record is not a SequenceExample; ``offset_bytes`` counts from its start.
    """
    data = bytes(record)
    context: dict[str, RawFeature] = {}
    feature_lists: dict[str, list[FeatureValue]] = {}
    for tag, start, end in iter_fields(data, 0, len(data)):
        if tag == _FIELD_1:
            scan_features(data, start, end, context)
        elif tag == _FIELD_2:
            for key, values in scan_entries(data, start, end):
                feature_lists[key] = _feature_list(data, values)
    return SequenceExample(
        {key: _value_of(data, feature) for key, feature in context.items()}, feature_lists
    )


def scan_example(data: bytes) -> dict[str, RawFeature]:
    """Return the places of the features of an Example in its record.

    Raises:
        FormatError: The record is not an Example.
    """
    features: dict[str, RawFeature] = {}
    for tag, start, end in iter_fields(data, 0, len(data)):
        if tag == _FIELD_1:
            scan_features(data, start, end, features)
    return features


def _features_message(features: Mapping[str, Any]) -> bytes:
    return map_message(
        (key.encode(), _feature_message(key, features[key]))
        for key in sorted(features, key=key_order)
    )


def _feature_message(key: str, value: Any) -> bytes:
    try:
        return feature_message(*list_of_value(value))
    except (TypeError, ValueError) as error:
        error.add_note(f"in feature {key!r}")
        raise


def _feature_list(data: bytes, values: list[tuple[int, int]]) -> list[FeatureValue]:
    features = []
    for list_start, list_end in values:
        for tag, start, end in iter_fields(data, list_start, list_end):
            if tag == _FIELD_1:
                feature = RawFeature()
                scan_feature(data, start, end, feature)
                features.append(_value_of(data, feature))
    return features


def _value_of(data: bytes, feature: RawFeature) -> FeatureValue:
    match feature.kind:
        case None:
            return None
        case ListKind.BYTES:
            return list(feature.pieces(data))
        case ListKind.FLOAT:
            return np.frombuffer(feature.content(data), "<f4").astype(np.float32)
        case ListKind.INT64:
            return decode_varints(np.frombuffer(feature.content(data), np.uint8))
