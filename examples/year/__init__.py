"""A year of flights with troubles on purpose, and the commands with which people deal with them."""
