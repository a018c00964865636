"""The version of the program, as written into archives and user agents."""

VERSION = "0.1.0"
