"""The logs of deepspeed, which benchrun does not launch."""
