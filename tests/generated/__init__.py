"""Logs written from a stated truth, and the property that benchrun says that truth or nothing."""
