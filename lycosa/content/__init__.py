"""The content of pages: main text, language, near duplicates, changes, variants and traps."""
