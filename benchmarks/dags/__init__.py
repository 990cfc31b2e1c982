"""The cost of many data sets for Airflow's DAG processor."""
