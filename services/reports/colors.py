"""The colours of the seven powers."""

from __future__ import annotations

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
# The same hues for lines and bars, distinct on white and on near-black.
LINE_COLORS = {
    "AUSTRIA": "#d4695c",
    "ENGLAND": "#a855e0",
    "FRANCE": "#5480f0",
    "GERMANY": "#a3805c",
    "ITALY": "#2fa043",
    "RUSSIA": "#8390a8",
    "TURKEY": "#c2a50a",
}
OTHER = "#8a8f98"  # roles of other tasks
