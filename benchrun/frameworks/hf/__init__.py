"""The framework hf: how it is launched, and how its logs read."""
