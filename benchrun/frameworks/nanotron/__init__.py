"""The logs of nanotron, which benchrun does not launch."""
