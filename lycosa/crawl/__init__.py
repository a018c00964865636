"""Crawl: how do the rooms become one crawl?"""
