"""The engine spark: preprocess and convert of a plan as one Spark application.

The plan's groups are the tasks of a map, the plan's shards those behind the shuffle::

    submitting process          driver                       executors
    SparkApplication ─ submit ─► Application ─ probe ───────► places, Python, code
                                            ├ rows of group ► limited worker process ► rows
                                            │                 account, quarantine ► work folder
                                            └ rows of shard ► shard ► staging folder
         report  ◄─ result ─────┘                             part file ► work folder

The files are those of the local engine, so ``check`` and ``publish`` do not know which engine ran.
Only ``_driver`` and ``executor_tasks`` import pyspark, where they run: the submitting process does
without it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from trainfeed.core.lazy_faces import on_demand

if TYPE_CHECKING:
    from trainfeed.pipeline.spark.application import SparkApplication
    from trainfeed.pipeline.spark.cluster import SPARK_CONNECTION, SparkCluster

__all__ = ["SPARK_CONNECTION", "SparkApplication", "SparkCluster"]


__getattr__ = on_demand(__name__)
