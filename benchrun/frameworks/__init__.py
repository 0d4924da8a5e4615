"""Frameworks that benchrun launches: one file each, what several share, and the
registry.
"""
