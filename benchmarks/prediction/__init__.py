"""Latency, throughput, exchange and overload of the service of predictions."""
