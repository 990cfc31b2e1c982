"""From source positions to a published version; this listing is the DAG, a stage a module.

The stages are imported where they run, because numpy and pyarrow come with them.
"""

from trainfeed.pipeline._ref import Build, PlanRef

__all__ = ["Build", "PlanRef"]
