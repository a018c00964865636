"""A frontier for other crawlers, with URLFrontier's gRPC interface (`lycosa frontier`): see `store` and
`service`."""
