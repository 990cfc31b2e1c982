"""A client of Airflow's REST API, for tests and demos."""

from services.airflow_client._airflow_answers import DagRun, TaskInstance
from services.airflow_client._airflow_requests import AirflowRequestError
from services.airflow_client._airflow_user import AirflowClient

__all__ = ["AirflowClient", "AirflowRequestError", "DagRun", "TaskInstance"]
