"""Audit: logs of jobs that ran and their accounting -> what was lost, and which nodes are slow."""
