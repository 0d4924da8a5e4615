"""Post-training by reinforcement learning: its frameworks and their logs."""
