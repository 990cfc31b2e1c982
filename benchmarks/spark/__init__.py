"""The benchmark of the engine spark: against hand-written PySpark, and against the local engine."""
