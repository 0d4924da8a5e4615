"""The framework nemo2: how it is launched, and how its logs read."""
