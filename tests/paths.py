"""Where tests find the checkout and the recorded games that may lie beside it."""

from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SHARED_DATA = ROOT.parent / "shared" / "data"
RECORDED_GAMES = SHARED_DATA / "diplomacy_games"
SCHEMAS = SHARED_DATA / "schemas"
