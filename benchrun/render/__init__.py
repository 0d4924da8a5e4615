"""RunSpec and cluster -> script text. Pure functions over templates/."""

from benchrun.render.render import render

__all__ = ["render"]
