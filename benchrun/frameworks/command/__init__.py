"""A training program of the user's own."""
