"""The colours of lines: distinct for every reader, and seen on the page."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import combinations

import numpy as np
import pytest

from services.reports.colors import ALL, DARK_COLORS, LIGHT_COLORS, MAP_COLORS, SERIES, country_styles
from services.reports.page import asset

# Ottosson, "A perceptual color space for image processing" (2020): linear sRGB -> cone responses -> OKLab.
TO_CONES = np.array(
    [
        [0.4122214708, 0.5363325363, 0.0514459929],
        [0.2119034982, 0.6806995451, 0.1073969566],
        [0.0883024619, 0.2817188376, 0.6299787005],
    ]
)
TO_OKLAB = np.array(
    [
        [0.2104542553, 0.7936177850, -0.0040720468],
        [1.9779984951, -2.4285922050, 0.4505937099],
        [0.0259040371, 0.7827717662, -0.8086757660],
    ]
)
# Machado, Oliveira and Fernandes (2009), severity 1, on linear sRGB.
VISION = {
    "normal": np.eye(3),
    "protanopia": np.array(
        [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]]
    ),
    "deuteranopia": np.array(
        [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]]
    ),
    "tritanopia": np.array(
        [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.303900]]
    ),
}
# OKLab distances; about 0.02 is the least that is seen side by side. Okabe and Ito's own eight reach 0.156 and 0.076.
LEAST = {"normal": 0.17, "protanopia": 0.09, "deuteranopia": 0.09, "tritanopia": 0.09}
PAGES = {"light": (LIGHT_COLORS, "#ffffff"), "dark": (DARK_COLORS, "#1c1f25")}


def linear(color: str) -> np.ndarray:
    parts = np.array([int(color[i : i + 2], 16) / 255 for i in (1, 3, 5)])
    return np.where(parts <= 0.04045, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4)


def oklab(color: str, vision: str = "normal") -> np.ndarray:
    seen = np.clip(VISION[vision] @ linear(color), 0, 1)
    return TO_OKLAB @ np.cbrt(TO_CONES @ seen)


def distance(one: str, other: str, vision: str) -> float:
    return float(np.linalg.norm(oklab(one, vision) - oklab(other, vision)))


def luminance(color: str) -> float:
    return float(linear(color) @ np.array([0.2126, 0.7152, 0.0722]))


def contrast(one: str, other: str) -> float:
    """The ratio of the Web Content Accessibility Guidelines, 1 to 21; graphics need 3."""
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


def test_the_measures_agree_with_published_values() -> None:
    assert oklab("#ffffff") == pytest.approx([1, 0, 0], abs=1e-4)
    assert oklab("#ff0000") == pytest.approx([0.62796, 0.22486, 0.12585], abs=1e-4)
    assert contrast("#ffffff", "#000000") == pytest.approx(21)
    # A reader without red and green sees these two greys and reds alike; others do not.
    assert distance("#c00000", "#564f1c", "deuteranopia") < distance("#c00000", "#564f1c", "normal") / 2


@pytest.mark.parametrize("vision", VISION)
@pytest.mark.parametrize("scheme", PAGES)
def test_every_two_colours_are_distinct(scheme: str, vision: str) -> None:
    colors, _ = PAGES[scheme]
    assert len(colors) == 8
    near = {
        (one, other): round(found, 3)
        for one, other in combinations(colors, 2)
        if (found := distance(colors[one], colors[other], vision)) < LEAST[vision]
    }
    assert not near


@pytest.mark.parametrize("scheme", PAGES)
def test_every_colour_is_seen_on_its_page(scheme: str) -> None:
    colors, background = PAGES[scheme]
    assert f"--card: {background}" in asset("common.css")
    assert {name: color for name, color in colors.items() if contrast(color, background) < 3} == {}


def test_both_pages_name_the_same_colours() -> None:
    names: set[str] = {*MAP_COLORS, ALL}
    schemes: list[Mapping[str, str]] = [LIGHT_COLORS, DARK_COLORS]
    for colors in schemes:
        assert set(colors) == names
        assert all(f"--line-{name}: {color};" in country_styles() for name, color in colors.items())
    assert {name.removeprefix("@") for name in SERIES} == names
