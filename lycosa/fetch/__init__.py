"""Fetch: how does one exchange with a site go, and may it happen at all?"""
