"""The build benchmark: batch and record mode against other engines."""
