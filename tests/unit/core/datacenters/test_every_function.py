"""Every public function that takes a path takes ``pfs://``, or refuses it; none makes such a file.

A function that is new in the public surface is missing in the tables below: it needs a row.
"""

import inspect
import re
from pathlib import Path

import pytest

from tests.unit.conversion.conftest import FIXED, fixed_samples
from tests.unit.test_paths_as_text import (
    BETWEEN_ROOMS,
    CALLS,
    HANDED_OUT,
    make_files,
    public_functions,
)
from trainfeed import (
    conversion,
    loader,
    publicsets,
    readers,
    recordio,
    remote,
    samples,
    specification,
    tfrecord,
)
from trainfeed import files as paths
from trainfeed import versions as dataset
from trainfeed.cli import scaffold
from trainfeed.compat.paddle.dataset import common, mnist
from trainfeed.compat.paddle.dataset import common as fetch
from trainfeed.compat.paddle.reader import creator
from trainfeed.compat.plsc.readers import base64, jpeg
from trainfeed.conversion import ConvertOptions, Format, SinkOptions, SourceOptions, SparseOptions
from trainfeed.core import config
from trainfeed.errors import AccessDeniedError, ConfigError
from trainfeed.files.stores import posix
from trainfeed.look import difference, lineage
from trainfeed.prediction import ModelPlace
from trainfeed.upkeep import repair
from trainfeed.versions import layout, root

SPARSE = SparseOptions(1, 3)
# Nothing asks it before the folder of the cache is known.
AFAR = "https://127.0.0.1/x"
NO_INDEX = recordio.RecordIndex(())
KINDS = ("PathLike", "FilePath", "StrPath", "Paths")
PLAIN = ("Path", "Path | None", "str | Path", "str | Path | None", "tuple[Path, ...]")


def entered(context):
    with context as value:
        return value


def made_root(folder):
    root.init_root(f"{folder}/root")
    return f"{folder}/root"


def shards(folder):
    return conversion.ShardManifest.load(folder, "p")


# Parameter → call with a path that is read; the second argument is a folder of good files.
READS = {
    "Base64Images.data_dir": lambda p, _: base64.Base64Images(p, images=conversion.ImageOptions()),
    "ImageFolder.data_dir": lambda p, _: jpeg.ImageFolder(p, images=conversion.ImageOptions()),
    "RankImages.data_dir": lambda p, _: jpeg.RankImages(p, images=conversion.ImageOptions()),
    "RankImages.of_this_rank.data_dir": lambda p, _: jpeg.RankImages.of_this_rank(p, 1, None, 0),
    "DatasetFolder.root": lambda p, _: layout.DatasetFolder(p, "x"),
    "Manifest.read.folder": lambda p, _: dataset.Manifest.read(p),
    "MappedFile.path": lambda p, _: recordio.MappedFile(p),
    "ModelPlace.datasets": lambda p, d: ModelPlace(d, p, "m", 1),
    "ModelPlace.root": lambda p, d: ModelPlace(p, d, "m", 1),
    "RandomAccess.path": lambda p, _: recordio.RandomAccess(p),
    "RangeScanner.path": lambda p, d: list(
        recordio.RangeScanner(p, recordio.RecordIndex.load(f"{d}/p-00000-of-00001"))
    ),
    "RecordFiles.paths": lambda p, _: loader.RecordFiles(p),
    "RecordScanner.paths": lambda p, _: recordio.RecordScanner(p),
    "Roots.inputs": lambda p, d: conversion.Roots((p,), (d,), d),
    "Roots.require_input.path": lambda p, d: conversion.Roots((d,), (d,), d).require_input(p),
    "SampleReader.paths": lambda p, _: samples.SampleReader(p, FIXED),
    "Side.at.path": lambda p, _: difference.Side.at(p),
    "ShardInfo.problem.folder": lambda p, d: shards(d).shards[0].problem(p, deep=False),
    "ShardManifest.load.folder": lambda p, _: shards(p),
    "ShardManifest.problems.folder": lambda p, d: shards(d).problems(p),
    "SourceOptions.labels": lambda p, d: list(
        conversion.open_sample_file(f"{d}/a.idx", SourceOptions(labels=p)).samples()
    ),
    "TFRecordAccess.path": lambda p, _: tfrecord.TFRecordAccess(p),
    "TFRecordFiles.paths": lambda p, _: loader.TFRecordFiles(p),
    "TFRecordIndex.load.file": lambda p, _: tfrecord.TFRecordIndex.load(p),
    "TFRecordReader.paths": lambda p, _: tfrecord.TFRecordReader(p),
    "RepairWish.backup": lambda p, _: repair.RepairWish(backup=p),
    "Tracer.root": lambda p, _: lineage.Tracer(p),
    "Version.open.path": lambda p, _: dataset.Version.open(p),
    "arc_train.data_dir": lambda p, _: jpeg.arc_train(p, 1),
    "base64_reader.data_dir": lambda p, _: conversion.base64_reader(p),
    "check_md5.path": lambda p, _: fetch.check_md5(p, "0" * 32),
    "convert_files.inputs": lambda p, d: conversion.convert_files(p, f"{d}/new", 1, "n"),
    "count_features.paths": lambda p, _: conversion.count_features([p], index_base=1),
    "data_sets_of.root": lambda p, _: root.data_sets_of(p),
    "expand_paths.paths": lambda p, _: paths.expand_paths(p),
    "format_of.path": lambda p, _: conversion.format_of(p),
    "idx.images": lambda p, d: list(readers.idx(p, f"{d}/a.idx")()),
    "idx.labels": lambda p, d: list(readers.idx(f"{d}/a.idx", p)()),
    "idx_schema.images": lambda p, _: conversion.idx_schema(p),
    "idx_schema.labels": lambda p, d: conversion.idx_schema(f"{d}/a.idx", p),
    "is_there.path": lambda p, _: paths.is_there(p),
    "iter_idx.path": lambda p, _: list(conversion.iter_idx(p)),
    "iter_idx_pairs.images": lambda p, d: list(conversion.iter_idx_pairs(p, f"{d}/a.idx")),
    "iter_idx_pairs.labels": lambda p, d: list(conversion.iter_idx_pairs(f"{d}/a.idx", p)),
    "iter_records.file": lambda p, _: list(tfrecord.iter_records(p)),
    "listed.folder": lambda p, _: paths.listed(p),
    "listed_folder.folder": lambda p, _: paths.listed_folder(p),
    "load_schema.path": lambda p, _: conversion.load_schema(p),
    "load_spec.folder": lambda p, _: specification.load_spec(p),
    "load_specs.datasets": lambda p, _: specification.load_specs(p),
    "md5_of.path": lambda p, _: fetch.md5_of(p),
    "md5file.fname": lambda p, _: common.md5file(p),
    "merge_files.paths": lambda p, d: conversion.merge_files([p], f"{d}/m"),
    "open_arrow.path": lambda p, _: entered(conversion.open_arrow(p)),
    "data_at.root": lambda p, _: entered(readers.data_at(p, "x")),
    "open_dataset.name": lambda p, _: readers.open_dataset(p, split="train"),
    "open_dataset.root": lambda p, _: readers.open_dataset(
        "x", interval="2026-01-01", split="train", root=p
    ),
    "open_idx.path": lambda p, _: entered(readers.open_idx(p)),
    "open_intervals.root": lambda p, _: loader.open_intervals(
        "x", ["2026-01-01"], split="train", root=p
    ),
    "open_parquet.path": lambda p, _: entered(conversion.open_parquet(p)),
    "open_plain.path": lambda p, _: entered(paths.open_plain(p, follow=True)),
    "build_public_set.originals": lambda p, d: publicsets.build_public_set(
        "mnist", originals=p, root=made_root(d)
    ),
    "open_public.root": lambda p, _: publicsets.open_public("mnist", split="train", root=p),
    "public_root.root": lambda p, _: publicsets.public_root(p),
    "public_version.root": lambda p, _: publicsets.public_version("mnist", root=p),
    "use_public_set.root": lambda p, _: publicsets.use_public_set("mnist", root=p),
    "column_format_of.path": lambda p, _: conversion.column_format_of(p),
    "draft_rows.path": lambda p, _: conversion.draft_rows(p, "parquet", rows=1),
    "draft_schema.path": lambda p, _: conversion.draft_schema(p),
    "open_sample_file.path": lambda p, _: conversion.open_sample_file(p, SourceOptions()),
    "paths_of.inputs": lambda p, _: conversion.paths_of(p),
    "plain_fd.path": lambda p, _: paths.plain_fd(p, follow=True),
    "published_root.root": lambda p, _: root.published_root(p),
    "read_csv.path": lambda p, _: list(conversion.read_csv(p)),
    "read_idx_header.path": lambda p, _: conversion.read_idx_header(p),
    "read_json_lines.path": lambda p, _: list(conversion.read_json_lines(p)),
    "read_module.path": lambda p, _: specification.read_module(p),
    "read_plain.path": lambda p, _: paths.read_plain(p, follow=True, max_bytes=9),
    "read_sparse.path": lambda p, _: list(conversion.read_sparse(p, SPARSE)),
    "read_webdataset.path": lambda p, _: list(conversion.read_webdataset(p)),
    "reader_creator.image_filename": lambda p, d: mnist.reader_creator(p, f"{d}/a.idx", 1),
    "reader_creator.label_filename": lambda p, d: mnist.reader_creator(f"{d}/a.idx", p, 1),
    "recordio.paths": lambda p, _: (readers.recordio(p), creator.recordio(p)),
    "repair_file.path": lambda p, d: conversion.repair_file(p, f"{d}/r", Format.RECORDIO),
    "require_readable_root.root": lambda p, _: root.require_readable_root(p, "it"),
    "spec_folders.datasets": lambda p, _: specification.spec_folders(p),
    "spec_or_error.folder": lambda p, _: specification.spec_or_error(p),
    "sync_dir.path": lambda p, _: posix.sync_dir(p),
    "sync_folder.path": lambda p, _: paths.sync_folder(p),
    "text_file.path": lambda p, _: list(readers.text_file(p)()),
    "tfrecord.paths": lambda p, _: readers.tfrecord(p),
    "train.data_dir": lambda p, _: base64.train(p, 1),
    "walk.folder": lambda p, _: list(paths.walk(p)),
    "webdataset_schema.path": lambda p, _: conversion.webdataset_schema(p),
}
# The same with a path that is written.
WRITES = {
    "ConvertOptions.work_dir": lambda p, d: conversion.convert(
        d, fixed_samples(1), 1, "n", schema=FIXED, options=ConvertOptions(work_dir=p)
    ),
    "NewFile.path": lambda p, _: paths.NewFile(p),
    "RecordAppender.path": lambda p, _: recordio.RecordAppender(p),
    "RecordWriter.target": lambda p, _: recordio.RecordWriter(p),
    "Roots.outputs": lambda p, d: conversion.Roots((d,), (p,), d),
    "Roots.work": lambda p, d: conversion.Roots((d,), (d,), p),
    "SinkOptions.labels": lambda p, d: conversion.transcode(
        conversion.open_sample_file(f"{d}/a.idx", SourceOptions(labels=f"{d}/a.idx")),
        f"{d}/n.idx",
        SinkOptions(labels=p),
    ),
    "TFRecordFiles.index_folder": lambda p, d: loader.TFRecordFiles(f"{d}/a.csv", index_folder=p),
    "TFRecordWriter.target": lambda p, _: tfrecord.TFRecordWriter(p),
    "TargetFile.path": lambda p, _: paths.TargetFile(p),
    "UnfinishedFile.path": lambda p, _: paths.UnfinishedFile(p),
    "UnfinishedFile.unfinished": lambda p, d: paths.UnfinishedFile(f"{d}/n", unfinished=p),
    "claim_name.path": lambda p, d: paths.claim_name(f"{d}/a.csv", p),
    "convert.output_path": lambda p, _: (
        conversion.convert(p, fixed_samples(1), 1, "n", schema=FIXED),
        common.convert(p, fixed_samples(1), 1, "m"),
    ),
    "convert_arrays.output_path": lambda p, _: conversion.convert_arrays(
        p, list, 1, "n", schema=FIXED
    ),
    "convert_files.output_path": lambda p, d: conversion.convert_files(f"{d}/a.csv", p, 1, "n"),
    "create_exclusive.path": lambda p, _: posix.create_exclusive(p, b""),
    "durable_file.path": lambda p, _: entered(paths.durable_file(p)),
    "fetch.path": lambda p, d: fetch.fetch(f"{d}/a.csv", p, "0" * 32),
    "file_lock.path": lambda p, _: entered(posix.file_lock(p)),
    "shared_lock.path": lambda p, _: entered(posix.shared_lock(p)),
    "try_lock.path": lambda p, _: entered(posix.try_lock(p)),
    "finish_publication.output": lambda p, _: conversion.finish_publication(p, "n"),
    "init_root.root": lambda p, _: root.init_root(p),
    "make_folders.path": lambda p, _: paths.make_folders(p),
    "make_public_dir.path": lambda p, _: posix.make_public_dir(p),
    "merge_files.output": lambda p, d: conversion.merge_files([f"{d}/p-00000-of-00001"], p),
    "new_dataset.datasets": lambda p, _: scaffold.new_dataset(p, "x"),
    "open_emptied.path": lambda p, _: paths.open_emptied(p),
    "build_public_set.root": lambda p, _: publicsets.build_public_set("mnist", root=p),
    "cache_place.folder": lambda p, _: config.cache_place(p, None),
    "data_at.cache": lambda p, _: entered(readers.data_at(AFAR, "x", cache=p)),
    "open_dataset.cache": lambda p, _: readers.open_dataset(
        "x", interval="2026-01-01", split="train", root=AFAR, cache=p
    ),
    "open_intervals.cache": lambda p, _: loader.open_intervals(
        "x", ["2026-01-01"], split="train", root=AFAR, cache=p
    ),
    "RemoteRoot.open.cache": lambda p, _: remote.RemoteRoot.open(AFAR, cache=p),
    "write_index.root": lambda p, _: remote.write_index(p),
    "build_public_set.work": lambda p, d: publicsets.build_public_set(
        "digits", root=made_root(d), work=p
    ),
    "publishing_root.root": lambda p, _: publicsets.publishing_root(p),
    "probe.into": lambda p, d: posix.probe(d, into=p),
    "probe.root": lambda p, _: posix.probe(p),
    "process_base64.data_dir": lambda p, _: conversion.process_base64(p, "list", 1),
    "remove_tree.path": lambda p, _: posix.remove_tree(p),
    "rename_directory.source": lambda p, d: posix.rename_directory(p, f"{d}/n"),
    "rename_directory.target": lambda p, d: posix.rename_directory(d, p),
    "repair_file.output": lambda p, d: conversion.repair_file(
        f"{d}/p-00000-of-00001", p, Format.RECORDIO
    ),
    "repair_in_place.path": lambda p, _: conversion.repair_in_place(p, Format.RECORDIO),
    "replace_file.path": lambda p, _: posix.replace_file(p, b""),
    "require_root.root": lambda p, _: root.require_root(p, "it"),
    "transcode.path": lambda p, d: conversion.transcode(
        conversion.open_sample_file(f"{d}/a.csv", SourceOptions()), p, SinkOptions(Format.CSV)
    ),
}
ALL = {**READS, **WRITES}
# Names for messages; paths of files that another call has opened or made; paths that another row
# opens: ``TargetWriter`` is the base of two of the writers, ``published_root`` opens for
# ``dispatched``, ``cache_place`` for ``followed``.
NEITHER = (
    HANDED_OUT
    | (BETWEEN_ROOMS - {"Context.sizes"})
    | {
        "DispatchedReader.root",
        "KafkaSourceSpec.place.folder",
        "RecordedSourceSpec.location.folder",
        "RecordedSourceSpec.place.folder",
        "RemoteRoot.followed.cache",
        "mark_of.path",
        "SourceOptions.require_used.path",
        "TFRecordRange.path",
        "TargetFile.place",
        "TargetWriter.target",
        "TopicPart.place.folder",
        "claim_name.unfinished",
        "dispatched.root",
        "map_errors.path",
        "os_errors.path",
        "plain_size.path",
    }
)


def test_every_parameter_for_a_path_has_a_row():
    found = set()
    for name, function in public_functions():
        for parameter in inspect.signature(function).parameters.values():
            kind = str(parameter.annotation)
            if any(each in kind for each in KINDS) or kind in PLAIN:
                found.add(f"{name}.{parameter.name}")
    assert found == READS.keys() | WRITES.keys() | (NEITHER - {"TrainingJob.save.write"})


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Files of each kind, the folder of them as text."""
    return make_files(tmp_path_factory.mktemp("made"))


def is_untouched(folder):
    return not list(Path(folder).iterdir())


def require_refused(calls, made, texts, expected, match, is_clean):
    """Call every function with every path; fail with all of those that do not refuse it."""
    wrong = []
    for name, call in calls.items():
        for text in texts:
            try:
                call(text, made)
            except expected as error:
                if not re.search(match, str(error)):
                    wrong.append(f"{name}, {text!r}: says {error}")
            except Exception as error:  # noqa: BLE001 (of any kind: it is named below)
                wrong.append(f"{name}, {text!r}: raises {error!r}")
            else:
                wrong.append(f"{name}, {text!r}: takes it")
            if not is_clean():
                wrong.append(f"{name}, {text!r}: has written")
                break
    assert wrong == []


def test_without_data_centres_a_shared_path_is_refused_and_no_file_made(areas, made):
    areas.config.unlink()
    texts = ("pfs://home/x", "pfs:/home/x", "PFS://home/x")
    match = r"data centres|pfs://"
    require_refused(ALL, made, texts, ConfigError, match, lambda: is_untouched("."))


def test_a_path_object_of_a_shared_path_is_refused(areas, made):
    path, match = Path("pfs://home/x"), r"pass the text|expected pfs://"
    require_refused(ALL, made, [path], ConfigError, match, lambda: is_untouched("."))


def test_nothing_is_written_to_the_public_area(areas, made):
    (areas.public / "old").write_text("old")

    def is_clean():
        return [path.read_text() for path in areas.public.iterdir()] == ["old"]

    require_refused(WRITES, made, ["pfs://public/old"], AccessDeniedError, "for reading", is_clean)


def test_a_link_that_leads_out_of_the_area_is_refused(areas, made, tmp_path):
    other = tmp_path / "other"
    other.mkdir()
    (areas.home / "way").symlink_to(other)
    texts, match = ["pfs://home/way/x"], "a link leads"
    require_refused(ALL, made, texts, AccessDeniedError, match, lambda: is_untouched(other))


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_a_shared_path_is_as_good_as_any_other(areas, made, call):
    (areas.home / "made").symlink_to(areas.home)
    for path in Path(made).iterdir():
        if path.is_file():
            (areas.home / path.name).write_bytes(path.read_bytes())
    call("pfs://home/made")
    assert is_untouched(".")
