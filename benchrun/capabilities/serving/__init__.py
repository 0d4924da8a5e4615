"""Servers of models: the frameworks that serve, the clients' logs, and their verdicts."""
