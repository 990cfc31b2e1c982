"""The import error that Airflow shows for wrong specifications of share 0; makes no DAG.

See `_shares.py`.
"""

# Airflow reads only files in which its name stands.
from dags._shares import raise_errors

raise_errors(0)
