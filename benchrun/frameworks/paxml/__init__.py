"""The framework paxml: how it is launched, and how its logs read."""
