"""The logs of nemo_automodel, which benchrun does not launch."""
