"""When to come back to a page: change rates, the value of a fetch, due times. Decisions only, without I/O."""
