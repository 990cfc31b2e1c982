"""The DAGs that Airflow has for the data sets of share 2; see `_shares.py`."""

from dags._shares import make_dags

make_dags(2)
