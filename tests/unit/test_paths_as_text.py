"""A path may be text wherever the public surface takes a path."""

import importlib
import inspect
import pkgutil

import numpy as np
import pytest

import trainfeed
from tests.unit.conversion.conftest import FIXED, fixed_samples
from trainfeed import conversion
from trainfeed import versions as dataset
from trainfeed.cli.scaffold import new_dataset
from trainfeed.conversion import Format, Roots, SinkOptions, SourceOptions, SparseOptions
from trainfeed.errors import NotFoundError
from trainfeed.files import open_plain, read_plain
from trainfeed.specification import load_spec, load_specs
from trainfeed.versions.layout import DatasetFolder
from trainfeed.versions.root import data_sets_of

INNER = ("core", "functions", "serving")
PUBLIC = {
    "trainfeed.cli.scaffold",
    "trainfeed.core.accounts",
    "trainfeed.core.config",
    *(f"trainfeed.look.{name}" for name in ("difference", "lineage", "outdated", "status")),
    *(f"trainfeed.upkeep.{name}" for name in ("repair", "retention", "withdrawal")),
    "trainfeed.versions.drift",
    "trainfeed.files.attempts",
    "trainfeed.files.stores",
    "trainfeed.readers.ahead",
    "trainfeed.serving.pfs",
    "trainfeed.versions.layout",
    "trainfeed.versions.root",
    "trainfeed.files.stores.posix",
    *(f"trainfeed.compat.paddle.dataset.{name}" for name in ("bow", "common", "mnist")),
    "trainfeed.compat.paddle.reader.creator",
    "trainfeed.compat.plsc.readers.base64",
    "trainfeed.compat.plsc.readers.jpeg",
    "trainfeed.compat.plsc.utils",
}
FRAMEWORKS = ("jax", "paddle", "tensorflow", "torch")
# What trainfeed hands out, and nobody makes by hand. Roots, DatasetFolder, ModelPlace and
# RepairWish take text when they are made.
HANDED_OUT = {
    "Checkpoint.path",
    "DatasetFolder.root",
    "DatasetPaths.root",
    "EntrySettings.checkpoint_dir",
    "EntrySettings.dataset_dir",
    "EntrySettings.model_save_dir",
    "Environment.datasets",
    "Report.checkpoint",
    "ModelPlace.datasets",
    "PublicBuild.root",
    "PublicVersion.root",
    "ModelPlace.root",
    "RepairWish.backup",
    "Roots.inputs",
    "Roots.outputs",
    "Roots.work",
    "SampleFile.path",
    "TrainingJob.output",
    "TrainingJob.save.write",
    "Version.path",
}
# What rooms hand each other: folders that one of them has made or found.
BETWEEN_ROOMS = {
    "Context.sizes",
    "DatasetFolder.names_in.folder",
    "dataset_status.datasets",
    "read_label_list.folder",
    "list_public_sets.root",
    "ModelWorker.version",
    "RemoteRoot.followed.folder",
    "RemoteRoot.state",
    "take_bytes.place",
    "take_upload.place",
}


def public_names(module):
    """The names that a face lists, or that a module defines."""
    defined = [
        name for name, each in vars(module).items() if name[0] != "_" and is_of(module, each)
    ]
    return getattr(module, "__all__", defined)


def is_of(module, value):
    return getattr(value, "__module__", None) == module.__name__


def public_functions():
    """Name and function of everything that public modules offer, methods included."""
    for info in pkgutil.walk_packages(trainfeed.__path__, "trainfeed."):
        parts = info.name.split(".")
        # Rooms in a room, modules behind a face, and these faces are for the rooms around them.
        is_public = len(parts) == 2 or (info.ispkg and parts[1] == "compat") or info.name in PUBLIC
        is_inner = parts[1] in INNER and info.name not in PUBLIC
        if not is_public or is_inner or any(part.startswith("_") for part in parts):
            continue
        module = importlib.import_module(info.name)
        for name in public_names(module):
            value = getattr(module, name)
            if inspect.isfunction(value):
                yield name, value
            elif inspect.isclass(value) and not issubclass(value, BaseException):
                yield name, value.__init__
                for key, each in list(vars(value).items()):
                    function = getattr(each, "__func__", each)
                    if not key.startswith("_") and inspect.isfunction(function):
                        yield f"{name}.{key}", function


def test_no_public_function_asks_for_a_path_object_alone():
    refused = set()
    for name, function in public_functions():
        for parameter in inspect.signature(function).parameters.values():
            kind = str(parameter.annotation)
            welcome = any(each in kind for each in ("str", "StrPath", "FilePath", "Paths"))
            if "Path" in kind and not welcome:
                refused.add(f"{name}.{parameter.name}")
    assert refused == HANDED_OUT | BETWEEN_ROOMS


@pytest.fixture
def made(tmp_path):
    """Files of each kind, the folder of them as text."""
    return make_files(tmp_path)


def make_files(tmp_path):
    """Make a file of each kind, and return their folder as text."""
    conversion.convert(tmp_path, fixed_samples(6), 2, "p", schema=FIXED)
    lines = {
        "a.csv": "a,b\n1,2\n",
        "a.jsonl": "[1]\n",
        "a.svm": "1 1:2\n",
        "s.json": '[{"name": "a", "dtype": "str"}]',
    }
    for name, text in lines.items():
        (tmp_path / name).write_text(text)
    with (tmp_path / "a.idx").open("wb") as file:
        header = conversion.IdxHeader(2, (3,), np.dtype("u1"))
        conversion.write_idx(file, [np.zeros((2, 3), "u1")], header)
    for name in ("a.parquet", "a.arrow"):
        source = conversion.open_sample_file(f"{tmp_path}/p-00000-of-00001", SourceOptions())
        conversion.transcode(source, f"{tmp_path}/{name}", SinkOptions())
    return str(tmp_path)


SPARSE = SparseOptions(1, 3)
CALLS = {
    "ShardManifest.load": lambda d: conversion.ShardManifest.load(d, "p").problems(d, deep=True),
    "format_of": lambda d: conversion.format_of(f"{d}/a.csv"),
    "read_csv": lambda d: list(conversion.read_csv(f"{d}/a.csv")),
    "read_json_lines": lambda d: list(conversion.read_json_lines(f"{d}/a.jsonl")),
    "read_sparse": lambda d: list(conversion.read_sparse(f"{d}/a.svm", SPARSE)),
    "count_features": lambda d: conversion.count_features([f"{d}/a.svm"], index_base=1),
    "read_idx_header": lambda d: conversion.read_idx_header(f"{d}/a.idx"),
    "idx_schema": lambda d: conversion.idx_schema(f"{d}/a.idx", f"{d}/a.idx"),
    "iter_idx": lambda d: list(conversion.iter_idx(f"{d}/a.idx")),
    "iter_idx_pairs": lambda d: list(conversion.iter_idx_pairs(f"{d}/a.idx", f"{d}/a.idx")),
    "load_schema": lambda d: conversion.load_schema(f"{d}/s.json"),
    "open_parquet": lambda d: count_rows(conversion.open_parquet(f"{d}/a.parquet")),
    "open_arrow": lambda d: count_rows(conversion.open_arrow(f"{d}/a.arrow")),
    "merge_files": lambda d: conversion.merge_files([f"{d}/p-00000-of-00001"], f"{d}/m.recordio"),
    "repair_file": lambda d: conversion.repair_file(
        f"{d}/p-00000-of-00001", f"{d}/r.recordio", Format.RECORDIO
    ),
    "repair_in_place": lambda d: conversion.repair_in_place(
        f"{d}/p-00000-of-00001", Format.RECORDIO
    ),
    "labels": lambda d: conversion.transcode(
        conversion.open_sample_file(f"{d}/a.idx", SourceOptions(labels=f"{d}/a.idx")),
        f"{d}/b.idx",
        SinkOptions(labels=f"{d}/c.idx"),
    ),
    "Roots": lambda d: Roots((d,), (d,), d).require_input(f"{d}/a.csv"),
    "init_root": lambda d: dataset.init_root(f"{d}/root"),
    "data_sets_of": data_sets_of,
    "DatasetFolder": lambda d: DatasetFolder(d, "x").path,
    "plain files": lambda d: (
        read_plain(f"{d}/a.csv", follow=False, max_bytes=99),
        open_plain(f"{d}/a.csv", follow=False).__enter__().close(),
    ),
    "new_dataset": lambda d: (new_dataset(f"{d}/sets", "x"), load_spec(f"{d}/sets/x")),
    "load_specs": load_specs,
}


def count_rows(opened):
    with opened as table:
        return table.count_rows()


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_a_path_as_text_is_as_good_as_a_path(made, call):
    call(made)


@pytest.mark.parametrize("read", [dataset.Version.open, dataset.Manifest.read])
def test_a_version_that_is_not_there_is_named_for_a_path_as_text(tmp_path, read):
    with pytest.raises(NotFoundError, match="is not a version"):
        read(f"{tmp_path}/2013-01-01/g0001")


@pytest.mark.parametrize("check", [dataset.require_root, dataset.require_readable_root])
def test_a_root_given_as_text_is_required_like_any_other(tmp_path, check):
    dataset.init_root(str(tmp_path))
    check(str(tmp_path), "the argument 'root'")
