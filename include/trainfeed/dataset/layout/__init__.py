"""The layout of data sets below the publication root, and the rules for names in it.

::

    <root>/TRAINFEED.json                  the marker of a publication root; see root.py
    <root>/<dataset>/
      SCHEDULE.json                        the schedule, from which intervals follow
      STATUS.jsonl                         index of trainfeed status; never trusted, may be deleted
      code/<digest>.json                   the code of a plan, to show later changes
      lookups/<digest>                     a lookup file of a plan, to show later changes
      versions/<interval>/g0001/           one immutable version
      versions/<interval>/CURRENT          advisory pointer; may be missing or behind
      versions/<interval>/g0001.withdrawn  hidden from readers by a person; see withdrawals
      versions/<interval>/g0001.restored-* a withdrawal that was taken back; it hides nothing
      versions/<interval>/g0001.removed    deleted by retention: the number is never used again
      versions/<interval>/RETIRED.json     all its versions were removed; see retirements
      boundaries/<topic>/<topic uuid>/     one file per point in time
      plans/<interval>/<plan id>.json      inputs, pieces and shards of one generation, sealed
      plans/<interval>/<plan id>.*.json    failed gates and waivers of the plan; see waivers
      plans/<interval>/SKIPPED.json        the decision to skip the interval, with its reason
      plans/<interval>/LANDING_REMOVED.json  when and why retention removed its landing files
      unpublished/<interval>.json          why the last attempt did not publish the interval
      _staging/<plan id>/                  becomes a version by one rename
      _staging/tmp/                        unfinished files of single attempts
      _leases/read.<uuid>.json             versions that a reader uses now; see leases
      _leases/build.<interval>.<uuid>.json who builds an interval now; advice, no lock
      training/<interval>/<job>/           one folder per training job
      training/_marks/                     which versions a training has seen
      history/<yyyymm>/<time>-….json       one action of a person, or of upkeep; see history
      tags/<tag>/0001.json                 one change of a tag; the last one is the tag
      holes/<start>-<end>.json             who accepted a hole between versions; see accepted_holes
      uploads/<interval>/<file>            labelled files, put there by people
      receipts/<number>.json               one per accepted upload, in order of arrival
      receipts/refused/<digest>.json       the reason why an upload is refused
      receipts/removed/<interval>.json     when and why retention removed its uploads
      receipts/announced.json              number of the last receipt with an asset event
      receipts/content/<sha256>            the bytes of accepted uploads
    <root>/models/                         models of all data sets; see trainfeed.models
"""

from __future__ import annotations

from trainfeed.dataset.layout._dataset_folder import DatasetFolder
from trainfeed.dataset.layout._entry_names import (
    CURRENT,
    CURRENT_BYTES,
    MANIFEST,
    MANIFEST_DIGEST,
    MODELS,
    SKIPPED,
    check_name,
    generation_name,
    generation_of_plan,
    is_generation,
    is_name,
    parse_generation,
    plan_id_of,
)

__all__ = [
    "CURRENT",
    "CURRENT_BYTES",
    "MANIFEST",
    "MANIFEST_DIGEST",
    "MODELS",
    "SKIPPED",
    "DatasetFolder",
    "check_name",
    "generation_name",
    "generation_of_plan",
    "is_generation",
    "is_name",
    "parse_generation",
    "plan_id_of",
]
