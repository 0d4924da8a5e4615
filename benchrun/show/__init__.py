"""Metrics and verdicts -> terminal, Markdown, tables. Pure functions over models."""
