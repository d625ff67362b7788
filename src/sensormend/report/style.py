"""How the page looks: by day, by night, on paper and on a phone."""

from __future__ import annotations

from sensormend.pipeline.health import HEALTH
from sensormend.plot.canvas import BLUE, GREYS, INK, NIGHT, ORANGE
from sensormend.plot.drawing import HEALTH_COLOURS

__all__ = ["NIGHT_STATES", "STATES", "STYLE"]

STATES = dict(zip(HEALTH, HEALTH_COLOURS, strict=True))
"""The colour of each state."""

NIGHT_STATES = {state: NIGHT.get(colour, colour) for state, colour in STATES.items()} | {"silent": "#8e99a6"}
"""The same on a dark page; ink that fills an area would be the brightest thing on it."""


def _variables(states: dict[str, str], **others: str) -> str:
    named = {state.replace(" ", "-"): colour for state, colour in states.items()} | others
    return "".join(f"--{name}:{colour};" for name, colour in named.items())


DAY_COLOURS = _variables(
    STATES, page="#ffffff", ink=INK, strong="#1f2933", soft=GREYS[0], faint=GREYS[1], rule=GREYS[2], hair=GREYS[3],
    raw=ORANGE, mended=BLUE, corrected="#00805c", card="#f7f9fa", warn="#a04000", doubt="#7a6000",
)  # fmt: skip
NIGHT_COLOURS = _variables(
    NIGHT_STATES, page=NIGHT["#ffffff"], ink=NIGHT[INK], strong=NIGHT["#1f2933"], soft=NIGHT[GREYS[0]],
    faint=NIGHT[GREYS[1]], rule=NIGHT[GREYS[2]], hair=NIGHT[GREYS[3]], raw=NIGHT[ORANGE], mended=NIGHT[BLUE],
    corrected="#3fc79a", card="#1b2027", warn=NIGHT["#a04000"], doubt=NIGHT["#7a6000"],
)  # fmt: skip

_SHEET = """
*{box-sizing:border-box}
html{-webkit-text-size-adjust:100%}
body{margin:0 auto;padding:2.2rem 1.4rem 4rem;max-width:62rem;background:var(--page);color:var(--ink);
overflow-wrap:anywhere;font:1rem/1.55 system-ui,-apple-system,"Segoe UI",Roboto,"Helvetica Neue",Arial,sans-serif}
h1{margin:0;font-size:2.1rem;line-height:1.2;color:var(--strong)}
h2{margin:3.2rem 0 .8rem;padding-top:.9rem;border-top:2px solid var(--hair);font-size:1.4rem;color:var(--strong)}
h3{margin:1.9rem 0 .5rem;font-size:1.05rem;color:var(--strong)}
p{margin:.5rem 0;max-width:46rem}
a{color:var(--mended)}
.over{margin:0 0 .3rem;font-size:.85rem;letter-spacing:.06em;text-transform:uppercase;color:var(--soft)}
.span{margin:.3rem 0 0;color:var(--soft)}
.says{margin:1.3rem 0;font-size:1.3rem;line-height:1.4;color:var(--strong)}
.figures{display:grid;grid-template-columns:repeat(5,1fr);gap:.7rem;margin:1.2rem 0;padding:0;list-style:none}
.figures li{padding:.8rem .9rem;background:var(--card);border:1px solid var(--hair);border-radius:.5rem}
.figures b{display:block;font-size:1.45rem;line-height:1.25;color:var(--strong);font-variant-numeric:tabular-nums}
.figures span{display:block;font-size:.84rem;line-height:1.35;color:var(--soft)}
nav{margin:1.2rem 0 0;font-size:.92rem;color:var(--soft)}
nav a{margin-right:1rem;white-space:nowrap}
table{width:100%;border-collapse:collapse;margin:.8rem 0;font-size:.92rem}
th,td{padding:.4rem .9rem .4rem 0;text-align:left;vertical-align:top;border-bottom:1px solid var(--hair)}
th{font-weight:600;color:var(--soft);border-bottom-color:var(--rule)}
th:last-child,td:last-child{padding-right:0}
th{overflow-wrap:normal}
td{overflow-wrap:break-word}
.name,.of,td.wide,code{overflow-wrap:anywhere}
.number{text-align:right;font-variant-numeric:tabular-nums;white-space:nowrap}
td:first-child{min-width:7.5rem}
td.wide{min-width:14rem}
.whole{white-space:nowrap}
.name{font-weight:600;color:var(--strong)}
.of{color:var(--soft)}
.quiet,figcaption,.note{color:var(--soft);font-size:.9rem}
code{unicode-bidi:isolate;padding:.1rem .3rem;background:var(--card);border:1px solid var(--hair);border-radius:.25rem;
font-size:.88em}
figure{margin:1rem 0}
figcaption{margin-top:.35rem;max-width:50rem}
.scroll{overflow-x:auto}
svg{display:block;width:100%;height:auto;font:11px system-ui,-apple-system,"Segoe UI",Roboto,Arial,sans-serif}
svg text{fill:var(--ink)}
svg .soft{fill:var(--soft)}
svg .bold{font-weight:600;fill:var(--strong)}
svg .warn{fill:var(--warn)}
svg .doubt{fill:var(--doubt)}
.axis{stroke:var(--hair);stroke-width:1;fill:none}
.sound{fill:var(--sound)}.filled{fill:var(--filled)}.suspect{fill:var(--suspect)}.faulty{fill:var(--faulty)}
.silent{fill:var(--silent)}.not-evaluated{fill:var(--not-evaluated)}
.raw{stroke:var(--raw);stroke-width:1;fill:none;stroke-linejoin:round;stroke-linecap:round}
.mended{stroke:var(--mended);stroke-width:1.4;fill:none;stroke-linejoin:round;stroke-linecap:round}
.corrected{stroke:var(--corrected);stroke-width:1.4;fill:none;stroke-linejoin:round;stroke-linecap:round}
.lasting{stroke:var(--warn);stroke-width:2;fill:none}
.far{stroke:var(--raw);stroke-width:1.4;fill:none;stroke-linejoin:round;stroke-linecap:round}
.usual{fill:var(--hair)}
.interval{fill:var(--mended);fill-opacity:.2}
.reach{stroke-width:.6}
.reach.raw{fill:color-mix(in srgb,var(--raw) 55%,var(--page))}
.reach.mended{fill:color-mix(in srgb,var(--mended) 50%,var(--page))}
.reach.corrected{fill:color-mix(in srgb,var(--corrected) 55%,var(--page))}
.shade{fill:var(--faulty);fill-opacity:.12}
.shade.doubt{fill:var(--suspect);fill-opacity:.22}
.shade.none{fill:var(--faint);fill-opacity:.16}
.edge{fill:none;stroke:var(--page);stroke-width:.6}
.dots{stroke:#1f2933;stroke-linecap:round;fill:none}
.ring{fill:none;stroke:#1f2933;stroke-width:1.6}
.halo{fill:none;stroke:#fff;stroke-width:3.6}
.unseen{position:absolute;width:0;height:0}
.hatch{stroke:var(--faint);stroke-width:1.2}
.under{fill:var(--card)}
.cell{stroke:var(--page);stroke-width:.6;stroke-linejoin:round}
svg .on-map{fill:#1f2933;font-weight:600;paint-order:stroke;stroke:#fff;stroke-width:3px;stroke-linejoin:round}
.ruler{fill:none;stroke:#1f2933;stroke-width:1.4}
.ruler-halo{fill:none;stroke:#fff;stroke-width:4}
.tick{stroke:var(--rule);stroke-width:1;fill:none}
.colours{max-width:24rem;margin:.2rem auto}
.key{display:flex;flex-wrap:wrap;gap:.3rem 1.2rem;margin:.6rem 0;padding:0;list-style:none;font-size:.88rem}
.key svg{display:inline-block;width:1.3em;height:.85em;margin-right:.4em;vertical-align:-.05em}
.pair{display:grid;grid-template-columns:1fr 1fr;gap:1rem}
.pixels{display:block;width:100%;image-rendering:pixelated;border:1px solid var(--hair)}
.worst{break-inside:avoid}
.limits{padding:0;margin:0;list-style:none}
.limits>li{margin:.9rem 0;padding:.1rem 0 .1rem 1rem;border-left:3px solid var(--suspect)}
.limits p,.limits ul{margin:.25rem 0}
.limits b{color:var(--strong)}
.limits li li{font-size:.93rem}
.many{columns:2 19rem;column-gap:2rem;padding-left:1.1rem}
.bar{display:block;height:.5rem;min-width:5rem;margin-top:.45rem}
footer{margin-top:3rem;padding-top:.8rem;border-top:1px solid var(--hair);font-size:.85rem;color:var(--soft)}
@media (max-width:52rem){.figures{grid-template-columns:repeat(2,1fr)}.figures li:first-child{grid-column:1/-1}}
@media screen and (max-width:40rem){
body{padding:1.2rem 1rem 3rem}
h1{font-size:1.6rem}
.says{font-size:1.12rem}
.pair{grid-template-columns:1fr}
.scroll svg{min-width:40rem}
table,thead,tbody,tr,td{display:block}
thead{display:none}
tr{display:flex;flex-wrap:wrap;gap:.1rem .9rem;padding:.5rem 0;border-bottom:1px solid var(--rule)}
td{display:inline-flex;gap:.35rem;align-items:baseline;padding:0;border:0;text-align:left}
td.number{text-align:left;white-space:normal}
td.wide,td:first-child{flex-basis:100%;min-width:0}
td.none{display:none}
td::before{content:attr(data-is);color:var(--soft);font-size:.85rem}
td.wide::before,td:first-child::before{content:none}
}
@page{size:A4;margin:14mm 13mm}
@media print{
html{font-size:9.5pt;print-color-adjust:exact;-webkit-print-color-adjust:exact}
body{max-width:none;padding:0;line-height:1.4}
h1{font-size:20pt}
h2{font-size:13pt;margin-top:1.6rem}
h2,h3,thead,h2+p,.key{break-after:avoid}
p,figcaption{max-width:none}
p{break-inside:avoid;margin:.3rem 0}
h3{margin-top:1rem}
.pair svg{max-height:62mm}
footer{margin-top:1rem}
nav{display:none}
.says{font-size:12.5pt}
.figures{grid-template-columns:repeat(5,1fr)}
.figures li:first-child{grid-column:auto}
.figures b{font-size:13pt}
tr,figure,.limits>li,.figures,.key{break-inside:avoid}
thead{display:table-header-group}
th,td{padding-top:.25rem;padding-bottom:.25rem}
figure{margin:.5rem 0}
a{color:inherit;text-decoration:none}
}
"""

STYLE = (
    f":root{{color-scheme:light dark;{DAY_COLOURS}}}\n"
    f"@media screen and (prefers-color-scheme:dark){{:root{{{NIGHT_COLOURS}}}}}{_SHEET}"
)
"""The style sheet."""
