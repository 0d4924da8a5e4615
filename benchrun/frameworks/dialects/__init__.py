"""The logs that can be read: one file a framework, those that benchrun does not launch too."""
