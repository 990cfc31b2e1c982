"""Schemas of Protobuf as text (``.proto``): parsed, with their names resolved.

Registries keep the text. What says how values are read is all here: messages, enums, fields with
their numbers, labels and types; options, services and extensions are passed over.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

from trainfeed.value_formats.framed import SchemaError

SCALARS: Final = frozenset(
    {
        "double", "float", "int32", "int64", "uint32", "uint64", "sint32", "sint64", "fixed32",
        "fixed64", "sfixed32", "sfixed64", "bool", "string", "bytes",
    }
)  # fmt: skip

_TOKEN: Final = re.compile(
    r"""(?xs)
    (?P<space> \s+ | //[^\n]* | /\*.*?\*/ )
    | (?P<text> "(?:[^"\\\n]|\\.)*" | '(?:[^'\\\n]|\\.)*' )
    | (?P<name> \.?[A-Za-z_][A-Za-z0-9_]*(?:\.[A-Za-z_][A-Za-z0-9_]*)* )
    | (?P<number> [0-9][0-9A-Za-z.+]* )
    | (?P<sign> [{}\[\]()<>;=,:/.+-] )
    """
)
_MOST_DEPTH: Final = 64
_MOST_NUMBER: Final = (1 << 29) - 1
_FIRST_MAP: Final = {"key": 1, "value": 2}

# Files that the compiler brings: text by name. Registries do not list them as references.
_KNOWN: Final[Mapping[str, str]] = {
    "google/protobuf/timestamp.proto": "message Timestamp {int64 seconds = 1; int32 nanos = 2;}",
    "google/protobuf/duration.proto": "message Duration {int64 seconds = 1; int32 nanos = 2;}",
    "google/protobuf/empty.proto": "message Empty {}",
    "google/protobuf/any.proto": "message Any {string type_url = 1; bytes value = 2;}",
    "google/protobuf/field_mask.proto": "message FieldMask {repeated string paths = 1;}",
    "google/protobuf/wrappers.proto": "".join(
        f"message {name}Value {{{kind} value = 1;}}"
        for name, kind in (
            ("Double", "double"), ("Float", "float"), ("Int64", "int64"), ("UInt64", "uint64"),
            ("Int32", "int32"), ("UInt32", "uint32"), ("Bool", "bool"), ("String", "string"),
            ("Bytes", "bytes"),
        )
    ),
    "google/protobuf/struct.proto": (
        "message Struct {map<string, Value> fields = 1;}"
        "message Value {oneof kind {NullValue null_value = 1; double number_value = 2;"
        " string string_value = 3; bool bool_value = 4; Struct struct_value = 5;"
        " ListValue list_value = 6;}}"
        "enum NullValue {NULL_VALUE = 0;}"
        "message ListValue {repeated Value values = 1;}"
    ),
    "google/protobuf/descriptor.proto": "",
}  # fmt: skip


@dataclass(eq=False)
class ProtoEnum:
    """An enum.

    Attributes:
        name: Full name.
        names: Number → name; the first one of each number.
        first: The number of its first name, which is the default.
    """

    name: str
    names: dict[int, str] = field(default_factory=dict)
    first: int = 0


@dataclass(eq=False)
class ProtoMessage:
    """A message.

    Attributes:
        name: Full name.
        fields: Its fields, in their order in the text.
        messages: The messages inside of it, in order.
        is_entry: Whether it is the pair of a map.
    """

    name: str
    fields: list[ProtoField] = field(default_factory=list)
    messages: list[ProtoMessage] = field(default_factory=list)
    is_entry: bool = False

    @property
    def short_name(self) -> str:
        """The name without package and outer messages."""
        return self.name.rpartition(".")[2]


@dataclass(eq=False)
class ProtoField:
    """One field of a message.

    Attributes:
        name: Its name.
        number: Its number.
        kind: A scalar type, enum or message.
        is_repeated: Whether it has any number of values.
        is_required: Whether a message without it is none.
        has_presence: Whether it is null where it is absent; else it is the default of its type.
        oneof: Name of the oneof that it is in; empty for none.
        enum: Its type, if it is an enum.
        message: Its type, if it is a message.
    """

    name: str
    number: int
    kind: str
    is_repeated: bool = False
    is_required: bool = False
    has_presence: bool = True
    oneof: str = ""
    enum: ProtoEnum | None = None
    message: ProtoMessage | None = None


@dataclass
class ProtoFile:
    """A file: its top-level messages in order, and all messages by their full names."""

    messages: list[ProtoMessage] = field(default_factory=list)
    named: dict[str, ProtoMessage] = field(default_factory=dict)

    def at(self, path: tuple[int, ...]) -> ProtoMessage:
        """Return the message at the indexes of a value: of the file, of that message, and so on.

        Raises:
            SchemaError: There is none.
        """
        found, messages = None, self.messages
        for index in path:
            if not 0 <= index < len(messages):
                raise SchemaError(f"the schema has no message at the indexes {list(path)}")
            found = messages[index]
            messages = [each for each in found.messages if not each.is_entry]
        if found is None:
            raise SchemaError("a value names no message")
        return found


def parse_proto(text: str, references: Mapping[str, str] | None = None) -> ProtoFile:
    """Parse a schema.

    Args:
        text: The file.
        references: Name → text of the files that it imports, each after those that it imports.

    Raises:
        SchemaError: A file is not valid, or imports one that is not there.
    """
    types: dict[str, ProtoMessage | ProtoEnum] = {}
    read: set[str] = set()
    files = dict(references or {})
    for name, each in files.items():
        _Parser(each, types, files, read).file()
        read.add(name)
    return _Parser(text, types, files, read).file()


_Later = Callable[[], None]


class _Parser:
    def __init__(
        self,
        text: str,
        types: dict[str, ProtoMessage | ProtoEnum],
        files: Mapping[str, str],
        read: set[str],
        package: str = "",
    ) -> None:
        self._tokens = _tokens(text)
        self._place = 0
        self._types = types
        self._files = files
        self._read = read
        self._package = package
        self._is_proto3 = False
        self._later: list[_Later] = []

    def file(self) -> ProtoFile:
        file = ProtoFile()
        while self._place < len(self._tokens):
            match self._next():
                case "syntax" | "edition":
                    self._expect("=")
                    self._is_proto3 = self._next().strip("\"'") != "proto2"
                    self._expect(";")
                case "package":
                    self._package = self._next()
                    self._expect(";")
                case "import":
                    self._import()
                case "message":
                    file.messages.append(self._message(self._package, 0, file))
                case "enum":
                    self._enum(self._package)
                case ";":
                    pass
                case _:
                    self._pass_over()
        for later in self._later:
            later()
        return file

    # --- Tokens

    def _next(self) -> str:
        if self._place >= len(self._tokens):
            raise SchemaError("expected more of a schema of Protobuf, got its end")
        self._place += 1
        return self._tokens[self._place - 1]

    def _peek(self) -> str:
        return self._tokens[self._place] if self._place < len(self._tokens) else ""

    def _expect(self, sign: str) -> None:
        if (found := self._next()) != sign:
            raise SchemaError(f"expected {sign!r} in a schema of Protobuf, got {found[:40]!r}")

    def _pass_over(self) -> None:
        """Go behind the end of a statement, or of its braces."""
        depth = 0
        while True:
            word = self._next()
            if word == "{":
                depth += 1
            elif word == "}":
                depth -= 1
                if depth <= 0:
                    return
            elif word == ";" and not depth:
                return

    def _options(self) -> None:
        """Go behind options in brackets, if there are any."""
        depth = 0
        while self._peek() == "[" or depth:
            word = self._next()
            depth += (word == "[") - (word == "]")

    def _number(self) -> int:
        sign = -1 if self._peek() == "-" else 1
        if sign < 0:
            self._next()
        text = self._next()
        try:
            return sign * int(text, 8 if re.fullmatch(r"0[0-7]+", text) else 0)
        except ValueError as error:
            raise SchemaError(f"expected a number in a schema of Protobuf, got {text!r}") from error

    # --- Definitions

    def _import(self) -> None:
        name = self._next()
        if name in {"public", "weak"}:
            name = self._next()
        self._expect(";")
        name = name.strip("\"'")
        if name in self._read:
            return
        if name in self._files:
            text, package = self._files[name], ""
        elif name in _KNOWN:
            text, package = _KNOWN[name], "google.protobuf"
        else:
            raise SchemaError(f"the schema imports {name!r}, which the registry does not name")
        self._read.add(name)
        parser = _Parser(text, self._types, self._files, self._read, package)
        parser._is_proto3 = package != ""
        parser.file()

    def _define(self, found: ProtoMessage | ProtoEnum) -> None:
        if found.name in self._types:
            raise SchemaError(f"expected one definition of {found.name!r}, got two")
        self._types[found.name] = found

    def _message(self, scope: str, depth: int, file: ProtoFile) -> ProtoMessage:
        if depth > _MOST_DEPTH:
            raise SchemaError(f"expected messages nested at most {_MOST_DEPTH} deep")
        message = ProtoMessage(_joined(scope, self._next()))
        self._define(message)
        file.named[message.name] = message
        self._expect("{")
        while (word := self._next()) != "}":
            match word:
                case "message":
                    message.messages.append(self._message(message.name, depth + 1, file))
                case "enum":
                    self._enum(message.name)
                case "oneof":
                    self._oneof(message)
                case "option" | "reserved" | "extensions" | "extend":
                    self._pass_over()
                case ";":
                    pass
                case _:
                    self._field(message, word)
        numbers = [each.number for each in message.fields]
        names = [each.name for each in message.fields]
        if len(set(numbers)) < len(numbers) or len(set(names)) < len(names):
            raise SchemaError(f"expected different names and numbers of fields in {message.name}")
        return message

    def _oneof(self, message: ProtoMessage) -> None:
        name = self._next()
        self._expect("{")
        while (word := self._next()) != "}":
            if word == "option":
                self._pass_over()
            elif word != ";":
                self._field(message, word, oneof=name)

    def _field(self, message: ProtoMessage, word: str, oneof: str = "") -> None:
        label = word if word in {"optional", "required", "repeated"} else ""
        kind = self._next() if label else word
        if kind == "group":
            raise SchemaError(f"{message.name}: groups of Protobuf are not read")
        if kind == "map" and self._peek() == "<":
            self._map(message)
            return
        name = self._next()
        self._expect("=")
        number = self._number()
        self._options()
        self._expect(";")
        if not 0 < number <= _MOST_NUMBER:
            raise SchemaError(f"{message.name}.{name}: expected a number of a field, got {number}")
        made = ProtoField(
            name,
            number,
            kind,
            is_repeated=label == "repeated",
            is_required=label == "required",
            has_presence=bool(oneof or label == "optional" or not self._is_proto3),
            oneof=oneof,
        )
        message.fields.append(made)
        self._resolve(made, message.name)

    def _map(self, message: ProtoMessage) -> None:
        self._expect("<")
        kinds = {"key": self._next()}
        self._expect(",")
        kinds["value"] = self._next()
        self._expect(">")
        name = self._next()
        self._expect("=")
        number = self._number()
        self._options()
        self._expect(";")
        entry = ProtoMessage(f"{message.name}.{name}+", is_entry=True)
        for part, kind in kinds.items():
            made = ProtoField(part, _FIRST_MAP[part], kind, has_presence=False)
            entry.fields.append(made)
            self._resolve(made, message.name)
        found = ProtoField(name, number, "message", is_repeated=True, message=entry)
        message.fields.append(found)

    def _resolve(self, made: ProtoField, scope: str) -> None:
        """Find the type of a field when all definitions are read."""
        if made.kind in SCALARS:
            return

        def find() -> None:
            found = self._named(made.kind, scope)
            if isinstance(found, ProtoEnum):
                made.kind, made.enum = "enum", found
            else:
                # A message that is absent is null, in every syntax.
                made.kind, made.message, made.has_presence = "message", found, True

        self._later.append(find)

    def _named(self, name: str, scope: str) -> ProtoMessage | ProtoEnum:
        if name.startswith("."):
            found = self._types.get(name[1:])
        else:
            found = None
            while found is None:
                found = self._types.get(_joined(scope, name))
                if not scope:
                    break
                scope = scope.rpartition(".")[0]
        if found is None:
            raise SchemaError(f"expected a type of Protobuf, or a message or an enum, got {name!r}")
        return found

    def _enum(self, scope: str) -> None:
        enum = ProtoEnum(_joined(scope, self._next()))
        self._define(enum)
        self._expect("{")
        while (word := self._next()) != "}":
            if word in {"option", "reserved"}:
                self._pass_over()
                continue
            if word == ";":
                continue
            self._expect("=")
            number = self._number()
            self._options()
            self._expect(";")
            if not enum.names:
                enum.first = number
            enum.names.setdefault(number, word)


def _tokens(text: str) -> list[str]:
    tokens: list[str] = []
    place = 0
    while place < len(text):
        match = _TOKEN.match(text, place)
        if match is None:
            raise SchemaError(f"expected a schema of Protobuf, got {text[place : place + 20]!r}")
        if match.lastgroup != "space":
            tokens.append(match[0])
        place = match.end()
    return tokens


def _joined(scope: str, name: str) -> str:
    return f"{scope}.{name}" if scope else name
