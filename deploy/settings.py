"""The processes of Airflow, and the settings that production and the embedded Airflow share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

# Process of Airflow → its arguments of the command ``airflow``.
PARTS: Mapping[str, Sequence[str]] = MappingProxyType(
    {
        # Logs of tasks are read from the file system, not from servers on all interfaces.
        "api-server": ("api-server",),
        "scheduler": ("scheduler", "--skip-serve-logs"),
        "dag-processor": ("dag-processor",),
        "triggerer": ("triggerer", "--skip-serve-logs"),
    }
)
# The modules that the process of a task imports, which takes 0.3 s of a core each time. Tasks are
# forked from the scheduler, which imports them once.
TASK_MODULES: Sequence[str] = (
    "airflow.dag_processing.bundles.local",
    "airflow.dag_processing.dagbag",
    "airflow.providers.standard.operators.empty",
    "airflow.sdk.execution_time.task_runner",
    "airflow.sdk.execution_time.timeout",
    "dags._datasets",
    "dags._defaults",
    "jinja2.ext",
    "numpy",
    "operators.stages",
    "operators.logs_complete",
    "operators.timetable",
    "operators.trainings",
    "pyarrow.compute",
    "pyarrow.parquet",
    "pydantic",
    "trainfeed.pipeline.build_attempts",
    "trainfeed.pipeline.check",
    "trainfeed.pipeline.convert",
    "trainfeed.pipeline.ingest",
    "trainfeed.pipeline.plan",
    "trainfeed.pipeline.planner",
    "trainfeed.pipeline.preprocess",
    "trainfeed.pipeline.preview",
    "trainfeed.pipeline.publish",
    "trainfeed.pipeline.version",
    "trainfeed.pipeline.workers",
    "trainfeed.training.launch",
    "trainfeed.training.promotion",
    "trainfeed.training.tagged",
)
# Behaviour of parts when another part has died; equal to docker-compose.yaml, which a test checks.
RECOVERY: Mapping[str, Mapping[str, object]] = MappingProxyType(
    {
        "core": {
            # The executor of Airflow forgets the task of a worker that dies, which stays `queued`.
            "executor": "deploy.executor.WatchedLocalExecutor"
        },
        "scheduler": {
            # The tasks of a scheduler that died start again within the sum of both.
            "scheduler_health_check_threshold": 15,
            "orphaned_tasks_check_interval": 10,
            # The executor notices the death of a task's process at once. Without an API server
            # there are no heartbeats, so this is longer than an outage that must not fail tasks.
            "task_instance_heartbeat_timeout": 300,
        },
        "workers": {
            "execution_api_timeout": 30,  # on a busy machine 5 s are too short for an answer
            # A task retries a silent API server this often, after 2 to 10 s each: at least 200 s,
            # usually ten minutes, which is the lifetime of its token.
            "execution_api_retries": 100,
            "execution_api_retry_wait_min": 2,
            "execution_api_retry_wait_max": 10,
        },
    }
)
