"""Acceptance of a cluster: a plan, its criteria, one verdict, an evidence pack, its
verification.
"""
