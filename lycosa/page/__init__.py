"""Page: reading bodies: their type, their encoding, their links and what their heads declare."""
