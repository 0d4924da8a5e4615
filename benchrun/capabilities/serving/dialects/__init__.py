"""The outputs of clients that measure a server."""
