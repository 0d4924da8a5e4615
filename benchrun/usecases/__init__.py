"""The use cases of the core: one function each, called by the command line and the
Python API.
"""
