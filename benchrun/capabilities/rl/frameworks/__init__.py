"""Frameworks of post-training."""
