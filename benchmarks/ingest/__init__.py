"""Kafka topics landed, beside a loop that only consumes them."""
