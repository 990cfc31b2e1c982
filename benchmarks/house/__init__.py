"""The house in figures: how many files, names and lines it has, and what one record passes."""
