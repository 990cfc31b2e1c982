"""What runs Airflow in production: executor, scheduler, preparation, and the settings of all parts.

docker-compose.yaml and the Dockerfile name its modules and files. ``services`` starts the Airflow
of tests and demos with the same ones.
"""
