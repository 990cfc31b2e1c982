"""Plugins of Airflow, which loads the files of this folder at its start."""
