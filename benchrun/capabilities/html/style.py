"""Style sheets: of the HTML page, and of plots that are files of their own. Text has a
contrast of 4.5 and more.
"""

LIGHT = {
    "ink": "#1f2328",
    "soft": "#57606a",
    "paper": "#ffffff",
    "line": "#d0d7de",
    "shade": "#eaeef2",
    "link": "#0550ae",
    "c0": "#0550ae",
    "c1": "#bc4c00",
    "c2": "#116329",
    "c3": "#8250df",
    "c4": "#a40e26",
    "c5": "#6e7781",
    "good": "#116329",
    "bad": "#a40e26",
    "look": "#7d4e00",
}
"""Colour of each use; c0 to c5 are those of series."""
DARK = {
    "ink": "#e6edf3",
    "soft": "#9da7b3",
    "paper": "#0d1117",
    "line": "#3d444d",
    "shade": "#1c2128",
    "link": "#79b8ff",
    "c0": "#58a6ff",
    "c1": "#f0883e",
    "c2": "#56d364",
    "c3": "#bc8cff",
    "c4": "#ff7b72",
    "c5": "#9da7b3",
    "good": "#56d364",
    "bad": "#ff7b72",
    "look": "#e3b341",
}
DRAWN = ("ink", "soft", "paper", "line", "shade", "c0", "c1", "c2", "c3", "c4", "c5")
"""Colours of plots."""


def _variables(colours: dict[str, str]) -> str:
    return "; ".join(f"--{name}: {colour}" for name, colour in colours.items())


SCHEMES = f""":root {{ {_variables(LIGHT)}; color-scheme: light dark }}
@media screen and (prefers-color-scheme: dark) {{ :root {{ {_variables(DARK)} }} }}
svg text {{ font: 11.5px system-ui, sans-serif; fill: var(--ink) }} svg {{ background: var(--paper) }}
"""
"""Colours of a page, and of a plot that is a file of its own."""
