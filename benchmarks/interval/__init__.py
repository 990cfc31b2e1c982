"""Intervals of one record through Airflow, beside an empty DAG of the same shape."""
