"""Page: what do these bytes say, and where do they point?"""
