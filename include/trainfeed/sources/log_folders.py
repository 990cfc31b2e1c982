"""Folders of log files: the formats, the complete marker, and what becomes of each entry."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from trainfeed.core.printable_text import printable
from trainfeed.errors import FormatError
from trainfeed.files.stores import FileInfo, Location

# --- The formats of files in a folder of logs: those that are read as lines, and those that are not


class LogCompression(NamedTuple):
    """A compression of log files: its name, suffix, and first bytes.

    Hadoop's blocks of lz4 and snappy, which have the same suffixes, have no such bytes.
    """

    name: str
    suffix: str
    magic: bytes


COMPRESSIONS: Final = (
    LogCompression("gzip", ".gz", b"\x1f\x8b\x08"),
    LogCompression("zstd", ".zst", b"\x28\xb5\x2f\xfd"),
    LogCompression("bz2", ".bz2", b"BZh"),
    LogCompression("lz4", ".lz4", b"\x04\x22\x4d\x18"),
    LogCompression("snappy", ".snappy", b"\xff\x06\0\0sNaPpY"),
    LogCompression("snappy", ".sz", b"\xff\x06\0\0sNaPpY"),
)

# First bytes of a file that show its format.
HEAD_BYTES: Final = 512


class _Format(NamedTuple):
    """A format that has no lines.

    Attributes:
        name: Its name in words.
        suffixes: The suffixes of its files.
        magics: Their first bytes.
        setting: The ``format`` of a specification that reads it; None if none does.
    """

    name: str
    suffixes: tuple[str, ...]
    magics: tuple[bytes, ...] = ()
    setting: str | None = None


_TAR: Final = "a tar archive"
# The suffixes are compared without regard to case; the first row that fits counts.
_FORMATS: Final = (
    _Format(_TAR, (".tar", ".tar.gz", ".tar.zst", ".tar.bz2", ".tar.lz4")),
    _Format(_TAR, (".tgz", ".tbz", ".tbz2", ".txz", ".tzst")),
    _Format("a Parquet file", (".parquet", ".parq"), (b"PAR1", b"PARE"), "parquet"),
    _Format("an ORC file", (".orc",), (b"ORC",), "orc"),
    _Format("an Avro file", (".avro",), (b"Obj\x01",), "avro"),
    _Format("an Arrow file", (".arrow", ".arrows", ".feather"), (b"ARROW1\0\0", b"FEA1"), "arrow"),
    _Format("a SequenceFile of Hadoop", (".sequencefile",), (b"SEQ\x04", b"SEQ\x05", b"SEQ\x06")),
    _Format("an RCFile", (".rcfile",), (b"RCF\x01",)),
    _Format("a TFRecord file", (".tfrecord", ".tfrecords"), (), "tfrecord"),
    _Format(
        "a RecordIO file", (".recordio",), (b"\x01\x02\x03\x04", b"\x04\x03\x02\x01"), "recordio"
    ),
    _Format("xz data", (".xz",), (b"\xfd7zXZ\0",)),
    _Format("lzma data", (".lzma",), (b"\x5d\0\0",)),
    _Format("lz4 data of the first form", (), (b"\x02\x21\x4c\x18",)),
    _Format("lzo data", (".lzo", ".lzo_deflate"), (b"\x89LZO\0",)),
    _Format("brotli data", (".br",)),
    _Format("deflate data", (".deflate",), (b"x\x9c", b"x\xda")),
    _Format("data of compress", (".z",), (b"\x1f\x9d", b"\x1f\xa0")),
    _Format("a zip archive", (".zip", ".xlsx", ".npz"), (b"PK\x03\x04", b"PK\x05\x06")),
    _Format("a 7z archive", (".7z",), (b"7z\xbc\xaf\x27\x1c",)),
    _Format("a RAR archive", (".rar",), (b"Rar!\x1a\x07",)),
    _Format("an SQLite database", (".sqlite", ".sqlite3"), (b"SQLite format 3\0",)),
    _Format("an HDF5 file", (".h5", ".hdf5"), (b"\x89HDF\r\n\x1a\n",)),
    _Format("a NumPy array", (".npy",), (b"\x93NUMPY",)),
    _Format("a pickle", (".pkl", ".pickle")),
    _Format("a PDF", (".pdf",), (b"%PDF-",)),
    _Format("an image", (".png", ".jpg", ".jpeg", ".gif"), (b"\x89PNG\r\n", b"\xff\xd8\xff")),
    _Format("an Excel file", (".xls",), (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1",)),
    _Format("encrypted data", (".gpg", ".pgp", ".age")),
)  # fmt: skip

_BYTE_ORDER_MARKS: Final = (b"\xff\xfe", b"\xfe\xff")
# A text has no such run and not so many bytes of 0 at its start.
_ZEROS: Final = b"\0" * 4
_MOST_ZEROS: Final = 15
# A format whose first bytes could be the first word of a text is known by a further such byte.
_CONTROLS: Final = frozenset(range(32)) - frozenset(b"\t\n\r\f\b\x1b")


def compression_of(name: str) -> str:
    """Return the compression of the file of this name: none, gzip, zstd, bz2, lz4 or snappy."""
    return next((c.name for c in COMPRESSIONS if name.endswith(c.suffix)), "none")


# The format whose records are lines, and the one that may be compressed as a whole.
LINES: Final = "lines"
_TFRECORD: Final = "tfrecord"


def name_of_format(file_format: str) -> str:
    """Return the name in words of a format that a specification reads, lines aside."""
    return next(each.name for each in _FORMATS if each.setting == file_format)


def setting_for(found: str) -> str:
    """Return the advice to set the format with this name in words; empty if none reads it."""
    setting = next((each.setting for each in _FORMATS if each.name == found), None)
    return "" if setting is None else f"say format: {setting} in source.logs of dataset.yaml, or "


def format_of_name(name: str) -> str | None:
    """Return what a file of this name is, in words; None if it is read as lines."""
    lower = name.lower()
    return next((each.name for each in _FORMATS if lower.endswith(each.suffixes)), None)


def format_of_bytes(head: bytes) -> str | None:
    """Return what a file is that begins with these bytes, in words; None if they may be lines.

    Args:
        head: The first ``HEAD_BYTES`` of the file, or all of them.
    """
    magics = [(f"data compressed with {each.name}", each.magic) for each in COMPRESSIONS]
    magics += [(each.name, magic) for each in _FORMATS for magic in each.magics]
    found = next((name for name, magic in magics if _begins(head, magic)), None)
    if found is None and head[257:262] == b"ustar":
        return _TAR
    return found or _binary(head)


def _binary(head: bytes) -> str | None:
    if _ZEROS not in head and head.count(0) <= _MOST_ZEROS:
        return None
    if head.startswith(_BYTE_ORDER_MARKS):
        return "text in UTF-16 or UTF-32"
    if not head.strip(b"\0"):
        return "bytes of 0, as in a file that was cut while its writer kept its place"
    return "binary data"


def _begins(head: bytes, magic: bytes) -> bool:
    if not head.startswith(magic):
        return False
    return not magic.isascii() or not magic.decode().isprintable() or _has_control(head)


def _has_control(head: bytes) -> bool:
    return not _CONTROLS.isdisjoint(head)


# --- What becomes of an entry in a folder of logs: it is read, passed over, or stops the build

REASONS: Final = (
    "hidden", "marker", "unfinished", "system", "lock", "checksum", "backup", "index", "link",
)  # fmt: skip

# What to do about an entry that is no log.
HIDE: Final = "move it away, or hide it: names that begin with '_' are not read"


class _Names(NamedTuple):
    """Names that are passed over wherever they lie; upper and lower case are the same."""

    reason: str
    pattern: str
    folders: bool = False


_NAMES: Final = (
    _Names("hidden", r"[._].*", folders=True),
    _Names(
        "unfinished",
        # Flume, Hadoop, Flink, Kafka Connect; copies and downloads; editors.
        r".*\.tmp|.*\._COPYING_|.*\.in[-_]?progress(\..*)?|\+tmp"
        r"|.*\.(partial|filepart|crdownload|incomplete|unfinished)|.*_\.gstmp|.*\.part\.minio"
        r"|.*\.____distcpSplit____.*|.*\.sw[opx]|.*___jb_tmp___",
        folders=True,
    ),
    _Names(
        "marker",
        r"(done|ready|success|succeeded|complete|completed|finished|ok)(\.txt)?"
        r"|.*\.(ok|ready|success|flag|flg|trg|trigger|ctl|fin|eof)|.*_\$folder\$",
    ),
    _Names("system", r"thumbs\.db|ehthumbs\.db|desktop\.ini|Icon\r"),
    _Names("lock", r".*\.(lock|lck|pid)|~\$.*"),
    _Names(
        "checksum",
        r".*\.(md5|sha1|sha224|sha256|sha384|sha512|crc|crc32)(sum)?"
        r"|(md5|sha1|sha256|sha512)-?sums?(\.txt)?|checksums?(\.txt)?",
    ),
    # Editors and rsync; what logrotate puts aside of a compression that was interrupted.
    _Names("backup", r".*~|#.*#|.*___jb_old___|.*-\d{10}\.backup"),
)
_KNOWN: Final = tuple(
    (each, re.compile(each.pattern, re.IGNORECASE | re.DOTALL)) for each in _NAMES
)

# Suffixes that make a file the companion of the file beside it that has the rest of its name.
_COMPANIONS: Final = {
    ".done": "marker", ".complete": "marker", ".completed": "marker", ".finished": "marker",
    ".processed": "marker",
    ".bak": "backup", ".orig": "backup", ".save": "backup", ".backup": "backup",
    ".asc": "checksum", ".sig": "checksum", ".minisig": "checksum",
    ".index": "index", ".idx": "index", ".gzi": "index", ".meta": "index",
}  # fmt: skip
_MARKING: Final = tuple(suffix for suffix, reason in _COMPANIONS.items() if reason == "marker")
# Names that some tools give to a file while they write it, and others to a file for good; the last
# is that of sed.
_UNCLEAR: Final = re.compile(
    r".*\.(part|temp|pending|download|uploading|writing|copying)|sed[A-Za-z0-9]{6}",
    re.IGNORECASE | re.DOTALL,
)
# Flink's old sink says with this companion that only the first bytes of a file are valid.
_VALID_LENGTH: Final = ".valid-length"


class Refusal(NamedTuple):
    """Why an entry stops the build.

    Attributes:
        names: The entries that it is about.
        what: What was expected, and what is there.
        remedy: What to do.
    """

    names: tuple[str, ...]
    what: str
    remedy: str


@dataclass(frozen=True)
class FolderEntries:
    """The entries of a folder of logs: every one is a log, passed over, or refused.

    Attributes:
        folder: The folder.
        logs: The files that are read, in order of name.
        passed_over: Name → reason of every entry that is not read, in order of name. Characters
            that cannot be printed are escaped.
        refused: Why the folder cannot be read; empty if it can.
        infos: Name → facts, of every entry.
    """

    folder: Location
    logs: list[FileInfo]
    passed_over: dict[str, str]
    refused: list[Refusal]
    infos: Mapping[str, FileInfo]

    def require(self, known: Container[str] = ()) -> FolderEntries:
        """Return the entries, unless one of them stops the build.

        Args:
            known: Names of the files that an earlier plan has read: they stay what they were.

        Raises:
            FormatError: There are such entries; the message names the first.
        """
        refused = [each for each in self.refused if not all(name in known for name in each.names)]
        if not refused:
            return self
        first, *others = refused
        more = f" (and {len(others)} more such entries)" if others else ""
        raise FormatError(
            f"{first.what}{more}; nothing was read or published; {first.remedy}",
            path=self.folder.uri if len(first.names) > 1 else (self.folder / first.names[0]).uri,
        )


def sort_entries(
    folder: Location, listing: Sequence[FileInfo], marker: str | None, file_format: str = LINES
) -> FolderEntries:
    """Return what becomes of every entry of a folder.

    Args:
        folder: The folder.
        listing: All of its entries, broken links included.
        marker: Name of the file that marks it as complete, or None.
        file_format: The format of its files, as a specification names it.
    """
    names = frozenset(info.name for info in listing)
    bases = names | {_plain_name(name) for name in names}
    reasons = {
        info.name: reason
        for info in listing
        if (reason := _reason(info, bases, marker)) is not None
    }
    reasons |= _links(listing, reasons)
    visible = sorted(
        (info for info in listing if info.name not in reasons), key=lambda info: info.name
    )
    refused = [
        found
        for info in visible
        if (found := _unreadable(info, file_format) or _doubtful(info, visible, names)) is not None
    ]
    refused += [*names_of_one(visible), *_twins(visible)]
    return FolderEntries(
        folder,
        [info for info in visible if _is_plain(info) and info.name.isprintable()],
        {printable(name): reasons[name] for name in sorted(reasons)},
        refused,
        {info.name: info for info in listing},
    )


def _plain_name(name: str) -> str:
    """Return a name without the suffix of its compression."""
    suffix = next((each.suffix for each in COMPRESSIONS if name.endswith(each.suffix)), "")
    return name.removesuffix(suffix)


def _is_plain(info: FileInfo) -> bool:
    return not info.is_dir and info.oddity is None


def _reason(info: FileInfo, bases: frozenset[str], marker: str | None) -> str | None:
    """Return why an entry is passed over by its name, or None.

    Args:
        info: The entry.
        bases: Names of files to which companions may belong.
        marker: Name of the file that marks the folder as complete, or None.
    """
    if info.name == marker:
        return "marker"
    is_plain = _is_plain(info)
    for each, pattern in _KNOWN:
        if (is_plain or each.folders) and pattern.fullmatch(info.name):
            return each.reason
    base, dot, suffix = info.name.rpartition(".")
    return _COMPANIONS.get(f"{dot}{suffix}".lower()) if is_plain and base in bases else None


def _links(listing: Sequence[FileInfo], reasons: Mapping[str, str]) -> dict[str, str]:
    """Return the links to files of the same folder that are read, or not read, by themselves.

    A link may be the way to read a hidden file, and is then a log.
    """
    own = {
        info.inode[:2]
        for info in listing
        if info.inode and not info.is_link and reasons.get(info.name) != "hidden"
    }
    return {
        info.name: "link"
        for info in listing
        if info.is_link and info.name not in reasons and info.inode and info.inode[:2] in own
    }


def _unreadable(info: FileInfo, file_format: str) -> Refusal | None:
    """Refuse what is not of the format, or has no name that can be told."""
    name = info.name
    if not _is_plain(info):
        what = f"the folder {name!r}" if info.is_dir else f"{name!r}, which is {info.oddity}"
        return Refusal((name,), f"expected only files, got {what}", HIDE)
    if not name.isprintable():
        what = f"expected names of printable characters, got {name!r}"
        return Refusal((name,), what, "rename the file")
    if file_format != LINES:
        return _of_other_format(name, file_format)
    if (found := format_of_name(name)) is not None:
        known = ", ".join(compression.suffix for compression in COMPRESSIONS)
        return Refusal(
            (name,),
            f"expected a plain file or one of {known}, got {name!r}, by its name {found}",
            f"{setting_for(found)}write its records as lines of text, compressed in one of these"
            f" ways or not, or {HIDE}",
        )
    return None


def _of_other_format(name: str, file_format: str) -> Refusal | None:
    """Refuse a file whose name says that it has no rows of the format."""
    wanted, compression = name_of_format(file_format), compression_of(name)
    may_be_compressed = file_format == _TFRECORD and compression in {"none", "gzip"}
    found = format_of_name(_plain_name(name) if may_be_compressed else name)
    if found is None and compression != "none" and not may_be_compressed:
        found = f"data compressed with {compression}"
    if found in {None, wanted}:
        return None
    what = f"expected {wanted}, as source.logs.format says, got {name!r}, by its name {found}"
    return Refusal((name,), what, f"{setting_for(found)}{HIDE}")


def _doubtful(info: FileInfo, visible: Sequence[FileInfo], names: frozenset[str]) -> Refusal | None:
    """Refuse what may be a log or not, whole or not."""
    name, lower = info.name, info.name.lower()
    if _UNCLEAR.fullmatch(name):
        return Refusal(
            (name,),
            f"expected finished files, got {name!r}, as some programs call a file while they write"
            " it",
            f"rename it if it is whole, else {HIDE}",
        )
    if f"_{name}{_VALID_LENGTH}" in names:
        return Refusal(
            (name,),
            f"expected whole files, got {name!r}, of which '_{name}{_VALID_LENGTH}' says that only"
            " its first bytes are valid",
            "cut it to this length, and remove the file that says so",
        )
    if info.size_bytes and lower.endswith(_MARKING) and not _end_alike(name, visible):
        return Refusal(
            (name,),
            f"expected logs and markers, got {name!r}, which may be either: other files do not end"
            " so, and none has the rest of its name",
            f"rename it if it is a log, else {HIDE}",
        )
    return None


def _end_alike(name: str, visible: Sequence[FileInfo]) -> bool:
    """Whether every log has the suffix of this one, as Flume gives it to what it has read."""
    suffix = name.rpartition(".")[2].lower()
    return all(info.name.lower().endswith(f".{suffix}") for info in visible)


def names_of_one(visible: Sequence[FileInfo]) -> Iterator[Refusal]:
    """Yield a refusal for each file that has several names here: hard links, or links to it."""
    groups: dict[tuple[int, int], list[FileInfo]] = defaultdict(list)
    for info in visible:
        if info.inode is not None and info.size_bytes:
            groups[info.inode[:2]].append(info)
    for group in groups.values():
        # Some file systems number files without care: two that are no links need hard links.
        if len(group) > 1 and all(_may_be_shared(info) for info in group):
            names = tuple(info.name for info in group)
            yield Refusal(
                names,
                f"expected files of their own, got {_listed(names)}, which are names of one"
                " file, so its records would count twice",
                "hide all but one (names that begin with '_' are not read), or give each its own"
                " copy",
            )


def _may_be_shared(info: FileInfo) -> bool:
    return info.is_link or (info.inode is not None and info.inode.links > 1)


def _twins(visible: Sequence[FileInfo]) -> Iterator[Refusal]:
    """Yield a refusal for each file that is there twice, plain and compressed, or in two ways."""
    groups: dict[str, list[str]] = defaultdict(list)
    for info in visible:
        if info.size_bytes:
            groups[_plain_name(info.name)].append(info.name)
    for names in groups.values():
        if len(names) > 1:
            yield Refusal(
                tuple(names),
                f"expected each log once, got {_listed(names)}, which differ in the suffix of"
                " their compression alone, so records would count twice",
                "if one was made from the other, remove one or hide it (names that begin with '_'"
                " are not read); if not, rename one",
            )


def _listed(names: Iterable[str]) -> str:
    return " and ".join(map(repr, sorted(names)))
