"""Messages of Protobuf by Google's library, from descriptors that a test writes down."""

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

KINDS = descriptor_pb2.FieldDescriptorProto
TYPES = {
    "double": KINDS.TYPE_DOUBLE, "float": KINDS.TYPE_FLOAT, "int32": KINDS.TYPE_INT32,
    "int64": KINDS.TYPE_INT64, "uint32": KINDS.TYPE_UINT32, "uint64": KINDS.TYPE_UINT64,
    "sint32": KINDS.TYPE_SINT32, "sint64": KINDS.TYPE_SINT64, "fixed32": KINDS.TYPE_FIXED32,
    "fixed64": KINDS.TYPE_FIXED64, "sfixed32": KINDS.TYPE_SFIXED32,
    "sfixed64": KINDS.TYPE_SFIXED64, "bool": KINDS.TYPE_BOOL, "string": KINDS.TYPE_STRING,
    "bytes": KINDS.TYPE_BYTES,
}  # fmt: skip


def class_of(name, fill, syntax="proto3"):
    """Return the class of a message; ``fill`` gets its descriptor, and the file."""
    file = descriptor_pb2.FileDescriptorProto(name=f"{name}.proto", syntax=syntax)
    message = file.message_type.add(name=name)
    fill(message, file)
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file) if hasattr(pool, "Add") else pool.AddSerializedFile(file.SerializeToString())
    return message_factory.GetMessageClass(pool.FindMessageTypeByName(name))


def add(message, name, number, kind, *, label="optional", optional=False, oneof=None, of=None):
    """Add a field; ``optional`` is that of proto3, which has presence."""
    made = message.field.add(name=name, number=number)
    made.label = getattr(KINDS, f"LABEL_{label.upper()}")
    if of is not None:
        made.type_name = of
        made.type = KINDS.TYPE_ENUM if kind == "enum" else KINDS.TYPE_MESSAGE
    else:
        made.type = TYPES[kind]
    if optional:
        made.proto3_optional = True
        made.oneof_index = len(message.oneof_decl)
        message.oneof_decl.add(name=f"_{name}")
    if oneof is not None:
        names = [each.name for each in message.oneof_decl]
        if oneof not in names:
            message.oneof_decl.add(name=oneof)
            names.append(oneof)
        made.oneof_index = names.index(oneof)
    return made
