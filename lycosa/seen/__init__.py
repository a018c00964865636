"""Seen: the stores that tell whether a URL (or a content) is new."""
