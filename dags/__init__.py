"""When tasks run, and in what order: one file per family of DAGs. Imports nothing, to be fast."""
