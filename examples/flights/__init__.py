"""The departures from New York in 2013 as an event log: to a Kafka topic, or to a recorded one."""
