"""The engine room of a cluster: NATS JetStream holds what must outlive any one machine."""
