"""Folders and connections of a deployment; the only reader of ``os.environ``.

One ``dataset.yaml`` serves every environment; these settings differ. Airflow sets them from its
connections; all other programs use these variables::

    TRAINFEED_DATA         folder below which the others have their defaults
    TRAINFEED_ROOT         publication root: a folder of a POSIX file system, pfs://…, or s3://…
    TRAINFEED_STATE        folder of a POSIX file system that follows a root in a bucket
    TRAINFEED_LANDING      folder or URI of the landing files
    TRAINFEED_WORK         folder or URI of the files between two stages
    TRAINFEED_KAFKA        host:port[,host:port…], or recorded:<folder or URI of recorded topics>
    TRAINFEED_LOGS         folder or URI at which the paths of log files start
    TRAINFEED_PUBLIC       public folder of the data centre; its folder dataset has the public sets
    TRAINFEED_MODELS       folder or URI at which the paths of transferred models start
    TRAINFEED_CONNECTIONS  file of further clusters, and of clusters with credentials
    TRAINFEED_CLUSTERS     file of the Kubernetes clusters that run trainings
    TRAINFEED_TRACKERS     file of the MLflow servers that trainings are delivered to
    TRAINFEED_REGISTRY     URL of the schema registry of the connection registry_default
    TRAINFEED_REGISTRIES   file of further schema registries, and of those with credentials
    TRAINFEED_CATALOG      URL of the catalogue of tables of the connection catalog_default
    TRAINFEED_CATALOGS     file of further catalogues of tables, and of those with credentials
    TRAINFEED_SPARK        file of the Spark cluster that runs preprocessing with engine spark
    TRAINFEED_DATASETS     folder of the data sets' folders
    TRAINFEED_TOKEN_FILE   file with the token for servers of trainfeed
    TRAINFEED_CA_FILE      certificates of the authorities that signed those of the servers
    TRAINFEED_CACHE        folder on a local disk for chunks that are read from a store
    TRAINFEED_CACHE_BYTES  most bytes of chunks in it, like 200GiB

A launcher tells the ranks of a job by environment where they find what the job file names::

    TRAINFEED_JOB_ROOT     publication root, as the rank sees it
    TRAINFEED_JOB_CODE     folder of the data set's code
    TRAINFEED_JOB_MODEL    folder of the model that an evaluation is about, below that root
    TRAINFEED_RETRIES      restarts that the rank allows itself, if the cluster does not count them
"""

from trainfeed.core.config.deployment import (
    KAFKA_CONNECTION,
    LOGS_CONNECTION,
    Environment,
    KafkaSettings,
    environment_from_environ,
)
from trainfeed.core.config.variables import (
    CA_FILE,
    JOB_CODE,
    JOB_MODEL,
    JOB_RETRIES,
    JOB_ROOT,
    PRIVATE_ROOTS,
    PUBLIC_FOLDER,
    RENDEZVOUS,
    STATE,
    TOKEN_FILE,
    RootPlace,
    bash_words,
    cache_place,
    command_environ,
    copied_root,
    executor_environ,
    hadoop_folder,
    is_public,
    is_remote,
    job_model,
    job_places,
    kerberos_places,
    local_folder_of_executor,
    name_bash_words,
    name_hadoop_user,
    name_object_store,
    name_rank,
    object_store_address,
    public_folder,
    rank_variables,
    rendezvous,
    root_folder,
    root_place,
    service_files,
    spark_environ,
    training_environ,
    worker_environ,
)

__all__ = [
    "CA_FILE",
    "JOB_CODE",
    "JOB_MODEL",
    "JOB_RETRIES",
    "JOB_ROOT",
    "KAFKA_CONNECTION",
    "LOGS_CONNECTION",
    "PRIVATE_ROOTS",
    "PUBLIC_FOLDER",
    "RENDEZVOUS",
    "STATE",
    "TOKEN_FILE",
    "Environment",
    "KafkaSettings",
    "RootPlace",
    "bash_words",
    "cache_place",
    "command_environ",
    "copied_root",
    "environment_from_environ",
    "executor_environ",
    "hadoop_folder",
    "is_public",
    "is_remote",
    "job_model",
    "job_places",
    "kerberos_places",
    "local_folder_of_executor",
    "name_bash_words",
    "name_hadoop_user",
    "name_object_store",
    "name_rank",
    "object_store_address",
    "public_folder",
    "rank_variables",
    "rendezvous",
    "root_folder",
    "root_place",
    "service_files",
    "spark_environ",
    "training_environ",
    "worker_environ",
]
