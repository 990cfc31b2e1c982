"""What the readers of each kind of file say: readers of samples, trainers, builds and commands."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from tests.sweep.project import CLICKS, Project
from tests.sweep.root import BUILT
from trainfeed.files.stores import Location
from trainfeed.look.status import Attempts, dataset_status
from trainfeed.pipeline import Build, PlanRef
from trainfeed.pipeline.code_copies import kept_code, kept_lookup
from trainfeed.pipeline.inputs.boundary_files import known_boundaries
from trainfeed.pipeline.plans import load_plan
from trainfeed.pipeline.publish import checked_content
from trainfeed.pipeline.quarantine_access import quarantine_of_version
from trainfeed.pipeline.stage import Stage
from trainfeed.readers import DatasetReader, recordio
from trainfeed.sources import LandingFile
from trainfeed.training.checkpoints import CHECKPOINTS, Checkpoints
from trainfeed.training.jobs import JobRecord, JobRemoval
from trainfeed.training.kept_jobs import kept_job
from trainfeed.training.models import Model, ModelsFolder, RemovedModel, current_version, history
from trainfeed.training.promotion import evaluate
from trainfeed.upkeep.retention import Context
from trainfeed.upkeep.retention.sweep import require_known_time
from trainfeed.uploads import (
    ReceiptBook,
    applied_uploads,
    check_uploads,
    interval_uploads,
    labels_of,
    unannounced,
)
from trainfeed.versions import (
    TrainingMarks,
    Version,
    read_schedule,
    read_skip,
    read_unpublished,
    require_root,
)
from trainfeed.versions.coverage import cover
from trainfeed.versions.history import actions
from trainfeed.versions.interval_notes import told_landing_removal
from trainfeed.versions.lease import leased_versions, leases
from trainfeed.versions.retire import retirement_of
from trainfeed.versions.shards import ShardManifest
from trainfeed.versions.skip import accepted_holes
from trainfeed.versions.tag_files import current_tag, tag_history, tagged_versions
from trainfeed.versions.training_marks import Untrained
from trainfeed.versions.waive import read_applied, read_refused, read_waivers
from trainfeed.versions.withdraw import lifted_withdrawals, withdrawals

__all__ = ["READERS", "Place", "read"]


@dataclass(frozen=True)
class Place:
    """A file of a project.

    Attributes:
        project: The project.
        name: Name of the file from the folder of the project on.
    """

    project: Project
    name: str

    @property
    def path(self) -> Path:
        return self.project.path / self.name

    @property
    def parts(self) -> list[str]:
        return self.name.split("/")

    @property
    def dataset(self) -> str:
        return self.parts[1]

    @property
    def folder(self):
        return self.project.folder(self.dataset)

    @property
    def interval(self) -> str:
        return self.parts[3].removesuffix(".json")

    @property
    def version(self) -> Path:
        return Path(*self.path.parts[: self.path.parts.index("versions") + 3])

    @property
    def ref(self) -> PlanRef:
        return PlanRef(self.dataset, self.interval, self.parts[-1].split(".")[0])

    @property
    def home(self) -> Path:
        """The folder of a job."""
        return Path(*self.path.parts[: self.path.parts.index("training") + 3])

    @property
    def model(self):
        return ModelsFolder(self.project.root).model(self.parts[2])


def read(place: Place, kind: str) -> str:
    """Return what the readers of a file say, as text to compare."""
    return repr(READERS[kind](place))


def _samples(place: Place) -> Any:
    version = Version.open(place.version)
    return {
        split: [sorted((k, repr(v)) for k, v in sample.items()) for sample in reader()]
        for split in sorted(version.manifest.splits)
        for reader in [DatasetReader([version], split).reader()]
    }


def _version(place: Place) -> Any:
    version = Version.open(place.version)
    return version.manifest, version.statistics(), version.num_samples("train")


def _verified(place: Place) -> Any:
    """What ``verify`` says of a file for which it is the reader."""
    version = Version.open(place.version)
    version.verify()
    return version.manifest


def _quarantine(place: Place) -> Any:
    return list(quarantine_of_version(Version.open(place.version)).places())


def _positions(place: Place) -> Any:
    return Version.open(place.version).positions().to_pydict()


def _chunks(place: Place) -> Any:
    version = Version.open(place.version)
    return {split: version.chunks(split) for split in sorted(version.manifest.splits)}


def _pointer(place: Place) -> Any:
    folder, interval = place.folder, place.interval
    generation = folder.readable_generation(interval)
    return generation, None if generation is None else Version.resolve(folder, interval).manifest


def _covered(place: Place) -> Any:
    found = cover(place.folder, "2024-03-01/2024-03-10")
    return found.versions, found.missing, found.skipped


def _schedule(place: Place) -> Any:
    return read_schedule(place.folder), _covered(place)


def _status(place: Place) -> Any:
    env = place.project.env
    return dataset_status(
        place.folder,
        datasets=env.datasets,
        attempts=Attempts(Location.parse(env.work), datetime(2025, 1, 1, tzinfo=UTC)),
        now=datetime(2025, 1, 1, tzinfo=UTC),
    )


def _retention(place: Place) -> Any:
    context = Context.of(place.project.spec(place.dataset), place.project.env)
    return require_known_time(context, dry_run=True, accepted=None)


def _removed_version(place: Place) -> Any:
    folder, interval = place.folder, place.interval
    return folder.is_removed(interval, 1), folder.generations(interval)


def _applied(place: Place) -> Any:
    folder, interval, plan_id = place.folder, place.interval, place.ref.plan_id
    refused = read_refused(folder, interval, plan_id)
    return refused and read_applied(folder, interval, plan_id, refused.gates)


def _verdict(place: Place) -> Any:
    spec, env = place.project.spec(), place.project.env
    build = Build(spec, env, PlanRef(CLICKS, BUILT, place.parts[2]))
    return checked_content(Stage.open(build))


def _gate(place: Place) -> Any:
    home = place.home
    return evaluate(place.project.spec(), place.project.env, home.parent.name, home.name)


def _boundaries(place: Place) -> Any:
    return known_boundaries(place.folder, place.parts[3], place.parts[4])


def _marks(place: Place) -> Any:
    marks = TrainingMarks(place.folder)
    announced = [Untrained(f"2024-03-0{number}", 1) for number in (3, 4)]
    return (
        marks.declined(),
        marks.untrained(),
        marks.untrained(older=True),
        marks.lost(announced, "another"),
    )


def _tag(place: Place) -> Any:
    folder, tag = place.folder, place.parts[3]
    return current_tag(folder, tag), list(tag_history(folder, tag)), tagged_versions(folder)


def _uploads(place: Place) -> Any:
    spec, folder = place.project.spec(place.dataset), place.folder
    book = ReceiptBook(folder)
    labels = {
        day: labels_of(spec, folder, applied_uploads(folder, day)).table.to_pydict()
        for day in ("2024-03-01", "2024-03-04")
    }
    return book.receipts(), book.refusals(), labels, unannounced(folder)


def _upload(place: Place) -> Any:
    spec, folder = place.project.spec(place.dataset), place.folder
    report = check_uploads(spec, folder)
    return report.accepted, report.refused, ReceiptBook(folder).receipts()


def _alias(place: Place) -> Any:
    alias = place.parts[4]
    return current_version(place.model, alias), history(place.model, alias)


def _last(place: Place) -> Any:
    return _alias(place) if place.parts[1] == "models" else _tag(place)


def _model(place: Place) -> Any:
    model = Model.open(place.model, int(place.parts[3][1:]))
    model.verify()
    return model.manifest


def _job(place: Place) -> Any:
    job = kept_job(place.project.root, place.home)
    return job.job, job.look({}), job.record.result()


def _output(place: Place) -> Any:
    if (result := JobRecord(place.home).result()) is None:
        return None
    result.verify(place.home)
    return result, place.path.read_bytes()


def _checkpoint(place: Place) -> Any:
    job = JobRecord(place.home).job()
    found = Checkpoints(place.home / CHECKPOINTS, job).newest()
    return found and (found, (found[0] / "model.txt").read_bytes())


def _landing(place: Place) -> Any:
    landing = LandingFile.open(Location.parse(str(place.path)))
    try:
        landing.verify()
        return [batch.to_pylist() for batch in landing.iter_batches(verifies=True)]
    finally:
        landing.close()


def _conversion(place: Place) -> Any:
    manifest = ShardManifest.load(place.path.parent, "part")
    records = list(recordio(str(place.path.parent / "part-*-of-*"))())
    return manifest, manifest.problems(place.path.parent, deep=True), records


def _leases(place: Place) -> Any:
    now = datetime.now(UTC)
    kept = leased_versions(place.folder, now)
    names = [(day, 1 + (day == "2024-03-02")) for day in ("2024-03-02", "2024-03-03", "2024-03-04")]
    return [each.to_json() for each in leases(place.folder)], [kept.why(*name) for name in names]


READERS: Final[dict[str, Callable[[Place], Any]]] = {
    "mark of the root": lambda at: require_root(at.project.root, "TRAINFEED_ROOT"),
    "schedule": _schedule,
    "last run of retention": _retention,
    "accepted hole": lambda at: accepted_holes(at.folder),
    "index of status": _status,
    "code": lambda at: kept_code(at.folder, at.path.stem),
    "lookup": lambda at: kept_lookup(at.folder, at.path.name),
    "pointer": _pointer,
    "manifest": _version,
    "digest of a manifest": _version,
    "chunks": _chunks,
    "positions": _positions,
    "statistics": _version,
    "quarantine": _quarantine,
    "times of a build": _verified,
    "shard": _samples,
    "withdrawal": lambda at: (withdrawals(at.folder, at.interval), _pointer(at)),
    "lifted withdrawal": lambda at: (lifted_withdrawals(at.folder, at.interval), _pointer(at)),
    "removal of a version": _removed_version,
    "retirement": lambda at: (retirement_of(at.folder, at.interval), _covered(at)),
    "boundary": _boundaries,
    "plan": lambda at: load_plan(at.folder, at.ref),
    "refused gates": lambda at: read_refused(at.folder, at.interval, at.ref.plan_id),
    "waiver": lambda at: read_waivers(at.folder, at.interval, at.ref.plan_id),
    "applied waivers": _applied,
    "verdict": _verdict,
    "skip": lambda at: (read_skip(at.folder, at.interval), _covered(at)),
    "removal of landing files": lambda at: told_landing_removal(at.folder, at.interval),
    "unpublished attempt": lambda at: read_unpublished(at.folder, at.interval),
    "lease": _leases,
    "job": _job,
    "result of a job": _job,
    "gate of a job": _gate,
    "removal of a job": lambda at: JobRemoval.read(at.home),
    "note of a checkpoint": _checkpoint,
    "checkpoint": _checkpoint,
    "output of a job": _output,
    "training mark": _marks,
    "begin of trainings": _marks,
    "action": lambda at: list(actions(at.folder)),
    "change of a tag": _tag,
    "last of a folder": _last,
    "upload": _upload,
    "receipt": _uploads,
    "interval of a receipt": _uploads,
    "refused upload": _uploads,
    "removal of uploads": lambda at: interval_uploads(at.folder),
    "announced receipts": _uploads,
    "kept upload": _uploads,
    "change of an alias": _alias,
    "manifest of a model": _model,
    "digest of a model": _model,
    "file of a model": _model,
    "removal of a model": lambda at: RemovedModel.read(at.model, int(at.path.stem[1:])),
    "landing file": _landing,
    "converted shard": _conversion,
    "manifest of a conversion": _conversion,
}
