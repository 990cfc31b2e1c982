"""Real Kafka, HDFS, CephFS and Airflow as plain processes on the loopback, for tests and demos."""

from services._process import InstallError, ServiceError
from services._run import Service
from services.airflow import AirflowStack
from services.airflow_client import AirflowClient, AirflowRequestError
from services.cephfs import CephFS
from services.hdfs import Hdfs
from services.kafka import Kafka

__all__ = [
    "AirflowClient",
    "AirflowRequestError",
    "AirflowStack",
    "CephFS",
    "Hdfs",
    "InstallError",
    "Kafka",
    "Service",
    "ServiceError",
]
