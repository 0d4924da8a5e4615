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
@media (prefers-color-scheme: dark) {{ :root {{ {_variables(DARK)} }} }}
svg text {{ font: 11.5px system-ui, sans-serif; fill: var(--ink) }} svg {{ background: var(--paper) }}
"""
"""Colours of a page, and of a plot that is a file of its own."""
PAGE = f"""
{SCHEMES}* {{ box-sizing: border-box }}
body {{ font: 15px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--paper); margin: 0 auto;
  max-width: 1240px; padding: 16px; overflow-wrap: break-word }}
h1 {{ font-size: 1.6rem; margin: 0 0 .3em }} h2 {{ font-size: 1.25rem; margin: 1.8em 0 .4em }}
h3 {{ display: inline; font-size: 1rem; margin: 0 }} h4 {{ font-size: 14px; margin: 18px 0 4px }}
p {{ margin: .4em 0 }} nav a {{ display: inline-block; margin-right: 18px; padding: 2px 0 }}
a {{ color: var(--link) }} .soft {{ color: var(--soft) }}
.pass {{ color: var(--good) }} .slow {{ color: var(--bad) }} .look {{ color: var(--look) }}
.judgement {{ font-weight: 600 }} .tally {{ display: flex; flex-wrap: wrap; gap: 4px 22px; margin: .4em 0 1em }}
.tally b {{ font-size: 1.25rem }}
.figures {{ display: grid; gap: 26px 28px; grid-template-columns: repeat(auto-fill, minmax(min(340px, 100%), 1fr));
  margin: 12px 0 }}
figure {{ margin: 0; break-inside: avoid; min-width: 0 }}
figure svg {{ width: 100%; max-width: 460px; height: auto; display: block }}
figcaption {{ font-weight: 600; margin-bottom: 4px }} figure p {{ color: var(--soft); font-size: 13px }}
.wide {{ grid-column: 1 / -1; break-inside: auto }}
.pair {{ display: grid; gap: 14px 32px; grid-template-columns: minmax(0, 460px) minmax(0, 1fr); align-items: start }}
table {{ border-collapse: collapse; width: 100%; font-size: 13px }}
th, td {{ text-align: left; vertical-align: top; padding: 3px 10px 3px 0; border-bottom: 1px solid var(--line);
  overflow-wrap: anywhere }}
th {{ overflow-wrap: normal; hyphens: auto }}
.n {{ text-align: right }} td.n, .s {{ white-space: nowrap }} td:first-child:not(.s) {{ min-width: 8em }}
.facts td:first-child {{ width: 9em; color: var(--soft) }}
details {{ border-top: 1px solid var(--line); padding: 8px 0 }} summary {{ cursor: pointer }}
figure details {{ border: 0; padding: 2px 0 }} figure summary {{ color: var(--soft); font-size: 13px }}
@media (max-width: 900px) {{
  .pair {{ grid-template-columns: minmax(0, 1fr) }} .pair table:not(.cards) td {{ overflow-wrap: break-word }}
  .cards thead {{ position: absolute; clip-path: inset(50%); width: 1px; height: 1px; overflow: hidden }}
  .cards tr {{ display: block; border-bottom: 2px solid var(--line); padding: 6px 0 }}
  .cards td {{ display: flex; justify-content: space-between; gap: 12px; border: 0; padding: 1px 0; text-align: right }}
  .cards td:empty::after {{ content: "-" }}
  .cards td::before {{ content: attr(data-label); color: var(--soft); text-align: left; flex: none; max-width: 45% }}
  .cards td.n {{ white-space: normal }} }}
@media print {{
  :root {{ {_variables(LIGHT)} }}
  details::details-content {{ content-visibility: visible; display: block; height: auto }}
  nav {{ display: none }} body {{ max-width: none; padding: 0; font-size: 12px }}
  .figures {{ grid-template-columns: repeat(2, minmax(0, 1fr)) }} .pair {{ grid-template-columns: 1fr }}
  table {{ font-size: 9px }} td, th {{ padding: 2px 3px }}
  tr, figure:not(.wide) {{ break-inside: avoid }} h2, summary {{ break-after: avoid }} }}
"""
