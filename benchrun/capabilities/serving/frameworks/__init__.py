"""Frameworks that serve a model."""
