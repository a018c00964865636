"""What a page says: its main text, its language, what it is like, and whether it has changed."""
