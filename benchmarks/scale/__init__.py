"""Whether builds keep to their memory, and how they grow."""
