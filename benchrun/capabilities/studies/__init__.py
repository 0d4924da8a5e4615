"""Sweeps: which point is which run, what is launched next, what it may cost, and what
came out.
"""
