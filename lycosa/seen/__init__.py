"""Seen: is this URL new?"""
