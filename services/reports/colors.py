"""The colours of lines and bars: those of the seven powers, which other roles take in turn; and those of the map."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

# The engine's map fills provinces with them.
MAP_COLORS = {
    "AUSTRIA": "#c48f85",
    "ENGLAND": "#9400d3",
    "FRANCE": "#4169e1",
    "GERMANY": "#a08a75",
    "ITALY": "#228b22",
    "RUSSIA": "#757d91",
    "TURKEY": "#b9a61c",
}
ALL = "ALL"  # all countries together: the ink of the page
# Eight colours for a light page and eight for a dark one. Hues: Okabe and Ito, "Color Universal Design" (2008), for the
# country whose colour on the map is nearest. Lightness and chroma were searched for the largest smallest distance of
# two colours in OKLab (Ottosson 2020), with normal vision and with the three dichromacies as Machado, Oliveira and
# Fernandes simulate them (2009), at a contrast of 3 or more with the page. Okabe and Ito's own yellow, orange and sky
# blue have less than 2.4 on white.
LIGHT_COLORS = {
    "AUSTRIA": "#d12f35",
    "ENGLAND": "#a843b8",
    "FRANCE": "#273796",
    "GERMANY": "#733601",
    "ITALY": "#067f69",
    "RUSSIA": "#2b84f5",
    "TURKEY": "#ba8b19",
    ALL: "#1d2126",
}
DARK_COLORS = {
    "AUSTRIA": "#b74604",
    "ENGLAND": "#ed2cbd",
    "FRANCE": "#0887f8",
    "GERMANY": "#a6952e",
    "ITALY": "#03806a",
    "RUSSIA": "#5cc7f6",
    "TURKEY": "#ffbf00",
    ALL: "#e8e6e1",
}
# References to the colours, for the lines of a chart that are no countries; a page fills in its scheme's.
SERIES = tuple(f"@{name}" for name in ("FRANCE", "TURKEY", "ITALY", "ENGLAND", "RUSSIA", "AUSTRIA", "GERMANY", ALL))


def line_color(role: str, roles: Sequence[str]) -> str | None:
    """Return the reference to a role's colour: its own, or that of its place among ``roles``; None for another role."""
    if role in MAP_COLORS:
        return f"@{role}"
    return SERIES[roles.index(role) % len(MAP_COLORS)] if role in roles else None


def country_styles() -> str:
    """Return the style sheet that defines ``--line-FRANCE`` and the others, for light and dark pages."""
    light, dark = (f":root {{ {_variables(colors)} }}" for colors in (LIGHT_COLORS, DARK_COLORS))
    return f"{light}\n@media (prefers-color-scheme: dark) {{ {dark} }}\n"


def _variables(colors: Mapping[str, str]) -> str:
    return " ".join(f"--line-{name}: {color};" for name, color in colors.items())
