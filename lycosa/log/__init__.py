"""Log: what has happened, durably and in order?"""
