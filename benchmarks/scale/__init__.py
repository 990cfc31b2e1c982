"""Memory of builds against its limit, and growth with the number of records."""
