"""Paths of the checkout and of the recorded games, which may be in a folder next to it."""

from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SHARED_DATA = ROOT.parent / "shared" / "data"
RECORDED_GAMES = SHARED_DATA / "diplomacy_games"
SCHEMAS = SHARED_DATA / "schemas"
