"""The framework megatron_bridge: how it is launched, and how its logs read."""
