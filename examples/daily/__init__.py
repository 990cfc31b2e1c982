"""``make run``: some days of flights through a real Airflow, and what came of them in one table."""
