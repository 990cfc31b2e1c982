"""Speed of shared storage: copies on a mount, and through the file server beside nginx."""
