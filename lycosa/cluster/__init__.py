"""Cluster: how do many agents crawl as one?"""
