"""The framework nemo1: how it is launched, and how its logs read."""
