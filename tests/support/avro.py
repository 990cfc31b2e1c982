"""Avro by its specification, one value after the other: slow, strict, and apart from the product.

``encode`` writes a datum, ``decode`` reads one and raises ``Refused`` for everything that is not
exactly one record of the schema. Neither resolves schemas: a value comes back as it was written.
"""

import struct


class Refused(Exception):  # noqa: N818 - a verdict
    """The bytes are no datum of the schema."""


def encode(schema, value, names=None):  # noqa: C901, PLR0911, PLR0912
    names = {} if names is None else names
    kind = _kind(schema, names)
    match kind:
        case "null":
            return b""
        case "boolean":
            return bytes([value])
        case "int" | "long":
            return varint(value)
        case "float":
            return struct.pack("<f", value)
        case "double":
            return struct.pack("<d", value)
        case "bytes":
            return varint(len(value)) + value
        case "string":
            data = value.encode()
            return varint(len(data)) + data
        case "fixed":
            assert len(value) == _resolved(schema, names)["size"]
            return value
        case "enum":
            return varint(_resolved(schema, names)["symbols"].index(value))
        case "array":
            items = b"".join(encode(schema["items"], each, names) for each in value)
            return (varint(len(value)) + items if value else b"") + b"\0"
        case "map":
            items = b"".join(
                encode("string", key, names) + encode(schema["values"], each, names)
                for key, each in value.items()
            )
            return (varint(len(value)) + items if value else b"") + b"\0"
        case "union":
            number = next(n for n, each in enumerate(schema) if _is_of(each, value, names))
            return varint(number) + encode(schema[number], value, names)
        case "record":
            schema = _resolved(schema, names)
            return b"".join(encode(f["type"], value[f["name"]], names) for f in schema["fields"])
    raise AssertionError(kind)


def decode(schema, data):
    value, pos = _decode(schema, data, 0, {})
    if pos != len(data):
        raise Refused("bytes behind the end")
    return value


def varint(value):
    number = (value << 1) ^ (value >> 63)
    out = bytearray()
    while number >= 128:
        out.append(number & 127 | 128)
        number >>= 7
    out.append(number)
    return bytes(out)


def _resolved(schema, names):
    if isinstance(schema, str) and schema in names:
        return names[schema]
    if isinstance(schema, dict) and "name" in schema:
        names[schema["name"]] = schema
    return schema


def _kind(schema, names):
    if isinstance(schema, list):
        return "union"
    schema = _resolved(schema, names)
    return schema if isinstance(schema, str) else schema["type"]


def _is_of(schema, value, names):
    kinds = {
        "null": type(None), "boolean": bool, "int": int, "long": int, "float": float,
        "double": float, "bytes": bytes, "string": str, "fixed": bytes, "enum": str,
        "array": list, "map": dict, "record": dict,
    }  # fmt: skip
    kind = _kind(schema, names)
    if kind == "enum":
        return isinstance(value, str) and value in _resolved(schema, names)["symbols"]
    return type(value) is kinds[kind]


def _varint(data, pos):
    number = shift = 0
    while True:
        if pos >= len(data) or shift >= 70:
            raise Refused("varint")
        byte = data[pos]
        pos += 1
        number |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            break
    if number >> 64:
        raise Refused("varint of more than 64 bits")
    return (number >> 1) ^ -(number & 1), pos


def _take(data, pos, count):
    if count < 0 or pos + count > len(data):
        raise Refused("length")
    return data[pos : pos + count], pos + count


def _decode(schema, data, pos, names):  # noqa: C901, PLR0911, PLR0912
    kind = _kind(schema, names)
    match kind:
        case "null":
            return None, pos
        case "boolean":
            byte, pos = _take(data, pos, 1)
            if byte not in {b"\0", b"\1"}:
                raise Refused("boolean")
            return byte == b"\1", pos
        case "int" | "long":
            value, pos = _varint(data, pos)
            if kind == "int" and not -(1 << 31) <= value < 1 << 31:
                raise Refused("int")
            return value, pos
        case "float" | "double":
            part, pos = _take(data, pos, 4 if kind == "float" else 8)
            return struct.unpack("<f" if kind == "float" else "<d", part)[0], pos
        case "bytes" | "string":
            count, pos = _varint(data, pos)
            part, pos = _take(data, pos, count)
            if kind == "bytes":
                return part, pos
            try:
                return part.decode(), pos
            except UnicodeDecodeError:
                raise Refused("UTF-8") from None
        case "fixed":
            return _take(data, pos, _resolved(schema, names)["size"])
        case "enum":
            number, pos = _varint(data, pos)
            symbols = _resolved(schema, names)["symbols"]
            if not 0 <= number < len(symbols):
                raise Refused("symbol")
            return symbols[number], pos
        case "union":
            number, pos = _varint(data, pos)
            if not 0 <= number < len(schema):
                raise Refused("branch")
            return _decode(schema[number], data, pos, names)
        case "record":
            record, value = _resolved(schema, names), {}
            for field in record["fields"]:
                value[field["name"]], pos = _decode(field["type"], data, pos, names)
            return value, pos
        case "array" | "map":
            return _blocks(schema, data, pos, names)
    raise AssertionError(kind)


def _blocks(schema, data, pos, names):
    pairs, is_map = [], schema["type"] == "map"
    while True:
        count, pos = _varint(data, pos)
        if count == 0:
            return (dict(pairs) if is_map else pairs), pos
        end = None
        if count < 0:
            count = -count
            size, pos = _varint(data, pos)
            if not 0 <= size <= len(data) - pos:
                raise Refused("size of a block")
            end = pos + size
        if count > len(data) - pos:
            raise Refused("count of a block")
        for _ in range(count):
            if is_map:
                key, pos = _decode("string", data, pos, names)
                value, pos = _decode(schema["values"], data, pos, names)
                pairs.append((key, value))
            else:
                value, pos = _decode(schema["items"], data, pos, names)
                pairs.append(value)
        if end not in {None, pos}:
            raise Refused("size of a block")
