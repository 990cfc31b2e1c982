"""What many data sets cost Airflow's DAG processor."""
