from benchrun.app.python import Run as Run
from benchrun.app.python import frame as frame
from benchrun.app.python import judge as judge
from benchrun.app.python import load as load

__version__: str
__all__ = ["Run", "frame", "judge", "load"]
