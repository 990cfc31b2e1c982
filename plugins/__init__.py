"""What Airflow must know when it starts. Airflow loads the files of this folder by itself."""
