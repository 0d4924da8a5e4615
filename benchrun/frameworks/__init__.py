"""What benchrun knows of each framework: one file a framework, what several share, and the registry."""
