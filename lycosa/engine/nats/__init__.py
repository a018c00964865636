"""The engine of a cluster: NATS JetStream."""
