"""The top of the page: whose it is, how it is in one sentence, and five figures."""

from __future__ import annotations

from sensormend.pipeline.sentences import counted, percent
from sensormend.readings import DAY, Flag
from sensormend.report.html import LONGEST_NAME, Html, joined, tag
from sensormend.report.material import Material
from sensormend.report.words import listed, span

__all__ = ["opening"]


def opening(material: Material, contents: list[tuple[str, str]]) -> Html:
    """Return the head of the page.

    Parameters
    ----------
    material
        What there is to say.
    contents
        The name and the title of each section.
    """
    network = material.network
    measured = [name[:LONGEST_NAME] for name in network.variables if name]
    of = f" · {listed(measured)}" if measured else ""
    return tag(
        "header",
        tag("p", "Report on a sensor network", class_="over"),
        tag("h1", network.name[:120]),
        tag(
            "p",
            f"{span(material.start // DAY * DAY, -(-material.end // DAY) * DAY)}{of} · all times are UTC",
            class_="span",
        ),
        tag("p", network.sentence, class_="says"),
        tag(
            "ul",
            *(tag("li", tag("b", figure), tag("span", says)) for figure, says in _figures(material)),
            class_="figures",
        ),
        tag("nav", joined((tag("a", title, href=f"#{name}") for name, title in contents), " "), aria_label="Contents"),
    )


def _figures(material: Material) -> list[tuple[str, str]]:
    counts = material.counts
    heard = sum(one.heard for one in counts.channels.values())
    wrong = len({one.sensor for one in material.wrong_now()})
    sensors = len({name for name, _ in counts.channels})
    days = counted(-(-(material.end - material.start) // DAY), "day")
    return [
        (f"{sensors:,}", f"{'sensor' if sensors == 1 else 'sensors'} over {days}"),
        (f"{wrong:,}", "faulty, silent or gone at the end: to be repaired"),
        (percent(counts.flags[Flag.FAIL], heard), "of what was measured was wrong"),
        (percent(counts.flags[Flag.MISSING], counts.rows), "of all values never came"),
        (percent(counts.estimated, counts.rows), "of all values are estimates"),
    ]
