"""The framework maxtext: how it is launched, and how its logs read."""
