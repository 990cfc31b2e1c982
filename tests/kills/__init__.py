"""Commands that are killed, or find no space, at every single call that changes a file."""
