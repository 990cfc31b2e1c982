"""A year of flights in which published versions turn out wrong, and how each is put right."""
