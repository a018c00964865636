"""URL: what is one URL, where does it belong, and is it ours to fetch?"""
