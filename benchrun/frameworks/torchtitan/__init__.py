"""The logs of torchtitan, which benchrun does not launch."""
