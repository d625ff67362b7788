"""How far every sensor is from the network, week by week: what drifts, before it matters."""

from __future__ import annotations

import numpy as np

from sensormend.pipeline.sentences import signed
from sensormend.readings import DAY
from sensormend.recovery import FloatArray
from sensormend.report.html import Html, name_of, table, tag
from sensormend.report.material import Material
from sensormend.report.svg import Scale, line, rect_path, short, svg
from sensormend.report.words import date
from sensormend.views.calibration import Calibration, CalibrationLine, calibration

__all__ = ["calibrations"]

MOST = 10
FAR = 4.0
"""Times the usual distance from which on a sensor is named as one to look at."""

WIDTH, HEIGHT = 420.0, 34.0


def calibrations(material: Material) -> Html | None:
    """Return the section; None where there are too few weeks or sensors to say anything."""
    distances = calibration(material.look, end=material.end, limit=MOST)
    known = [one for one in distances.rows if one.times is not None]
    if not known:
        return None
    first = int(np.datetime64(distances.start, "D").astype(np.int64)) * DAY
    last = first + distances.cells * distances.cell_days * DAY
    far = sum(one.times is not None and one.times >= FAR for one in known)
    who = material.many(far) if far < MOST else f"{MOST} and more"
    verdict = (
        f"{who} {'is' if far == 1 else 'are'} further from what the network expects than {FAR:g} times what is usual: "
        "look there first."
        if far
        else "Nobody is much further from what the network expects than is usual."
    )
    rows = [[name_of(one.sensor, one.variable), signed(one.now or 0.0), _rate(one, distances), _picture(one, distances)]
            for one in known]  # fmt: skip
    more = f" These are the {len(known)} farthest of {distances.total:,}." if distances.total > len(known) else ""
    return tag(
        "section",
        tag("h2", "Calibration"),
        tag("p", "How far each sensor reads from what the network expects of it, a point for every week from "
            f"{date(first)} to {date(last - DAY)}, the farthest first. Zero is where it was in its first trusted "
            f"weeks; the grey band is how far sensors usually are. {verdict}{more}"),
        table(("sensor", "now", "in 30 days", "week by week"), rows, numbers=(1, 2), wide=3),
        id="calibration",
    )  # fmt: skip


def _rate(one: CalibrationLine, distances: Calibration) -> str:
    if one.rate is None:
        return "-"
    # What changes by less than sensors usually are apart is no drift.
    return "steady" if abs(one.rate) < (distances.usual[one.variable] or 0.0) else signed(one.rate)


def _picture(one: CalibrationLine, distances: Calibration) -> Html:
    reach, usual = one.reach or 1.0, distances.usual[one.variable] or 0.0
    across = Scale(0.0, float(distances.cells), 0.0, WIDTH)
    down = Scale(-reach, reach, HEIGHT - 1, 1.0)
    values: FloatArray = np.array([np.nan if value is None else value for value in one.distance], dtype=float)
    top, bottom = down.place(usual), down.place(-usual)
    kind = "far" if one.times is not None and one.times >= FAR else "mended"
    return svg(
        WIDTH,
        HEIGHT,
        tag("path", d=rect_path(0.0, top, WIDTH, bottom - top), class_="usual"),
        tag("path", d=f"M0 {short(down.place(0.0))}H{short(WIDTH)}", class_="tick"),
        tag(
            "path",
            d=line(across.at(np.arange(0.5, distances.cells)), down.at(np.clip(values, -reach, reach))),
            class_=kind,
        ),
        says=f"Distance of {one.sensor[:80]} from the network, week by week",
    )
