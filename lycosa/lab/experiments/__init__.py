"""Experiments of the papers, one module each: graph-scale, on any BV graph."""
