"""Graph: who links to whom?"""
