"""The former name of `benchrun.worker`, for one release: jobs of older scripts call
``python -m benchrun.trainer``.
"""

from benchrun.worker import __path__ as __path__
