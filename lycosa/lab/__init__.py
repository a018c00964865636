"""Lab: what would happen if?"""
