"""When and in what order: one file per family of DAGs. Imports nothing, on purpose."""
