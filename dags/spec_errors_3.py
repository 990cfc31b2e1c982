"""The import error for wrong specifications of share 3, and no DAG; see `_shares.py`."""

# Airflow reads only files in which its name stands.
from dags._shares import raise_errors

raise_errors(3)
