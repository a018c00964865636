"""Lycosa: a web crawler that never loses its place."""

from lycosa.version import VERSION

__version__ = VERSION
