"""Serving in a job: random weights for a server, and a client that measures it."""
