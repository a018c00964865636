"""Ask: what happened in a crawl, and why?"""
