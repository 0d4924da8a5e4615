"""The files of a run: their names, their models, reading and writing them."""
