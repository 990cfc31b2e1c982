# syntax=docker/dockerfile:1
# What every part of Airflow runs in: the pinned packages and the code, no data sets and no secrets.

FROM python:3.11-slim-bookworm

ENV PYTHONUNBUFFERED=1 \
    PYTHONDONTWRITEBYTECODE=1 \
    # The triggerer and the plugins do not look into bundles: they find the code by this path.
    PYTHONPATH=/opt/trainfeed:/opt/trainfeed/include \
    # The repository is the bundle: its .airflowignore leaves dags/ to parse.
    AIRFLOW__CORE__DAGS_FOLDER=/opt/trainfeed \
    AIRFLOW__CORE__PLUGINS_FOLDER=/opt/trainfeed/plugins \
    AIRFLOW__CORE__LOAD_EXAMPLES=false \
    AIRFLOW_HOME=/var/lib/airflow \
    # Airflow 3.3 reads .airflowignore with a class that its library has renamed.
    PYTHONWARNINGS=ignore:GitWildMatchPattern:DeprecationWarning \
    TRAINFEED_DATASETS=/opt/trainfeed/include/datasets

COPY requirements.txt /tmp/requirements.txt
RUN pip install --no-cache-dir --no-compile --require-hashes --requirement /tmp/requirements.txt \
    && rm /tmp/requirements.txt

# What functions of data sets need besides: docs/guides/add-a-package.md.
COPY requirements/functions.txt /tmp/functions.txt
RUN if grep -q '^[^#]' /tmp/functions.txt; then \
        pip install --no-cache-dir --no-compile --require-hashes --requirement /tmp/functions.txt; \
    fi && rm /tmp/functions.txt

# The folders that volumes are mounted on belong to the account: a new volume takes that over.
RUN useradd --create-home --uid 1000 airflow \
    && install --directory --owner=airflow --group=airflow \
        /var/lib/airflow /publication

COPY .airflowignore /opt/trainfeed/
COPY dags /opt/trainfeed/dags
COPY operators /opt/trainfeed/operators
COPY plugins /opt/trainfeed/plugins
COPY deploy /opt/trainfeed/deploy
COPY include/trainfeed /opt/trainfeed/include/trainfeed
# The command line runs the code that the tasks run.
RUN ln -s /opt/trainfeed/deploy/trainfeed /usr/local/bin/trainfeed

USER airflow
WORKDIR /var/lib/airflow
CMD ["airflow", "version"]
