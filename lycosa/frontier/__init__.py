"""Frontier: what next, and when?"""
