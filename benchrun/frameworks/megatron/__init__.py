"""The framework megatron: how it is launched, and how its logs read."""
