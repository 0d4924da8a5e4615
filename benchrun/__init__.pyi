from benchrun.python import Run as Run
from benchrun.python import compare as compare
from benchrun.python import diff as diff
from benchrun.python import frame as frame
from benchrun.python import load as load

__version__: str
__all__ = ["Run", "compare", "diff", "frame", "load"]
