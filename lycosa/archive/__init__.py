"""Archive: where are the bytes that were exchanged, in a form that others can read?"""
