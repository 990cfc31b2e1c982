"""The DAGs that Airflow has for the data sets of share 4; see `_datasets.py`."""

# Airflow reads only files in which its name stands.
from dags._datasets import make_dags

make_dags(4)
