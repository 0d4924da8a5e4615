"""RunSpec: one run with nothing implicit, and the models of its parts."""
