"""A frontier for other crawlers, by URLFrontier's gRPC interface (`lycosa frontier`): see `store`, `service`."""
