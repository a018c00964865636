"""Fetch: one exchange with a site, and whether it may happen at all."""
