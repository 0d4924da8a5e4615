"""benchrun: does my cluster train large language models as fast as it should, and if not, why?"""

__version__ = "0.2.0"
