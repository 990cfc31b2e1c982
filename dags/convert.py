"""
The DAG `convert`: files → shards of record files, shuffled over all of them.

The trigger form asks for the input (a path, comma list or glob of files in any format of samples),
the folder, number and prefix of the shards, the seed, and the format. The result equals, byte for
byte, the files of `trainfeed file reshard` with the same arguments on one machine. Paths must lie
below the folders of the connection `convert_default`.

A task that is tried again or cleared does only the missing work. The shards appear together in the
last task; until then, and after a failure, an earlier set is unchanged.
"""

from __future__ import annotations

from typing import Final

from airflow.sdk import DAG, Param, chain

from dags._defaults import DEFAULT_ARGS, MAPPED_LIMIT, TAGS
from operators.convert import (
    GatherShardsOperator,
    PlanConversionOperator,
    PublishConversionOperator,
    ScatterFilesOperator,
)

UNIT_LABEL: Final = "unit {{ task.unit }}"
CODECS: Final = ("none", "snappy", "gzip", "lz4", "zstd", "zlib")
FORM: Final = {
    "input": Param(
        type="string",
        minLength=1,
        title="Input",
        description="Files: a path, a list between commas, or a glob, or the folder of a version or"
        " a set; relative to the first folder of inputs, or absolute.",
    ),
    "output": Param(
        type="string",
        minLength=1,
        title="Output",
        description="Folder of the shards; a missing folder is made.",
    ),
    "shards": Param(10, type="integer", minimum=1, maximum=100_000, title="Shards"),
    "prefix": Param(
        "data",
        type="string",
        pattern="^[A-Za-z0-9_][A-Za-z0-9._-]*$",
        title="Prefix",
        description="The files are prefix-aaaaa-of-bbbbb.",
    ),
    "seed": Param(0, type="integer", title="Seed of the shuffle"),
    "format": Param("recordio", type="string", enum=["recordio", "tfrecord"], title="Format"),
    "codec": Param(
        "none",
        type="string",
        enum=list(CODECS),
        title="Compression",
        description="TFRecord has none, gzip and zlib; RecordIO all but zlib.",
    ),
    "delimiter": Param(
        None,
        type=["null", "string"],
        maxLength=3,
        title="Delimiter of CSV",
        description="The character between cells, or tab; if empty, the header decides.",
    ),
    "flatten": Param(
        None,
        type=["null", "string"],
        title="Structs to flatten",
        description="Columns of Parquet and Arrow, between commas, whose parts become fields:"
        " image gives image.bytes and image.path.",
    ),
    "json_columns": Param(
        None,
        type=["null", "string"],
        title="Columns as JSON",
        description="Columns of Parquet and Arrow, between commas, of any type, such as lists of"
        " text and maps.",
    ),
    "rename": Param(
        None,
        type=["null", "string"],
        title="Columns with other names",
        description="Columns of Parquet, Arrow and CSV with the names of their fields, between"
        " commas: user id=user, Time=time.",
    ),
}

with DAG(
    dag_id="convert",
    description="Files to shards of record files, shuffled globally",
    doc_md=__doc__,
    schedule=None,
    params=FORM,
    default_args=DEFAULT_ARGS,
    tags=[*TAGS],
) as dag:
    plan = PlanConversionOperator(task_id="plan")
    of_unit = {
        "plan": plan.plan,
        "execution_timeout": MAPPED_LIMIT,
        "map_index_template": UNIT_LABEL,
    }
    scatter = ScatterFilesOperator.partial(task_id="scatter", **of_unit)
    gather = GatherShardsOperator.partial(task_id="gather", **of_unit)
    chain(
        plan,
        scatter.expand(unit=plan.output),
        gather.expand(unit=plan.output),
        PublishConversionOperator(task_id="publish", plan=plan.plan),
    )
