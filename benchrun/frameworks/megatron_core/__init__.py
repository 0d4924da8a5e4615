"""The framework megatron_core: how it is launched, and how its logs read."""
