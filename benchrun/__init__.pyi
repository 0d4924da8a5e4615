from benchrun.app.python import Run as Run
from benchrun.app.python import compare as compare
from benchrun.app.python import diff as diff
from benchrun.app.python import frame as frame
from benchrun.app.python import load as load

__version__: str
__all__ = ["Run", "compare", "diff", "frame", "load"]
