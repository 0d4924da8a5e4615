"""The logs that can be read: one file per framework, those that benchrun does not launch too."""
