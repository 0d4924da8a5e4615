"""The logs of post-training frameworks."""
