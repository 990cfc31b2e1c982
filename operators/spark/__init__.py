"""The task that preprocesses and converts on a Spark cluster, and its connection."""

from operators.spark._build_on_spark import BuildOnSparkOperator

__all__ = ["BuildOnSparkOperator"]
