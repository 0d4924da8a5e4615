"""Metrics + references -> verdict."""
