"""When to fetch a page again: change rates, the value of a fetch, due times. Decisions only, without I/O."""
