"""``make run``: some days of flights through a real Airflow, and one table of the results."""
