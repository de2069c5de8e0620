"""``entente replay`` and the decisions that ``entente play`` records."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import entente as entente_api
from cluster.actors.initial_policy import make_policy
from cluster.configs.loader import dump_config, load_config
from cluster.errors import RunError
from grpo_core.checkpoints.store import save_checkpoint
from grpo_core.learner import Learner
from grpo_core.models.pretrained import save_model
from services.reports.game_viewer.decisions import decisions_path, read_decisions
from services.reports.page import ReportError
from tests.unit.cluster.cli.test_evaluation import entente


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run with one checkpoint of a small policy."""
    folder = tmp_path_factory.mktemp("runs") / "demo"
    folder.mkdir()
    config = load_config("smoke", ["policy.hidden_size=32", "policy.layers=1", "policy.intermediate_size=32"])
    (folder / "config.toml").write_text(dump_config(config))
    model, tokenizer = make_policy(config.policy, 0, config.world.language)
    learner = Learner(model, config.learner, config.grouping, seed=0)
    save_checkpoint(folder, learner, lambda path: save_model(model, tokenizer, path), {})
    return folder


@pytest.fixture(scope="module")
def game(run: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("games") / "one.json"
    entente("play", "--seat", f"FRANCE={run}", "--until", 1901, "--out", out, "--html", out.with_suffix(".html"))
    return out


def test_a_game_with_a_page_has_its_decisions_beside_it(game: Path) -> None:
    found = read_decisions(game)
    assert found is not None
    assert found.made == "played"
    assert {each.power for each in found.decisions} == {"FRANCE"}
    assert {each.player for each in found.decisions} == {"demo/checkpoints/0"}
    assert '"decisions":{"S1901M":{"FRANCE"' in game.with_suffix(".html").read_text()


def test_decisions_are_recorded_as_asked(run: Path, tmp_path: Path) -> None:
    out = tmp_path / "one.json"
    seat = ("--seat", f"FRANCE={run}", "--until", 1901, "--out", out)
    entente("play", *seat)
    assert not decisions_path(out).exists()
    entente("play", *seat, "--decisions")
    assert decisions_path(out).exists()
    entente("play", *seat, "--html", tmp_path / "one.html", "--no-decisions")
    assert not decisions_path(out).exists(), "those of the game before are gone"


def test_a_replay_shows_recorded_decisions_by_default(game: Path, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    said = entente("replay", game, "--out", page)
    found = read_decisions(game)
    assert found is not None
    assert f"{len(found.decisions)} decisions replay:" in said
    assert page.read_text() == game.with_suffix(".html").read_text()


def test_a_policy_is_asked_about_its_own_seats_or_those_named(run: Path, game: Path, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    entente("replay", game, "--policy", run, "--out", page)
    asked = data_of(page)
    assert {power for each in asked["decisions"].values() for power in each} == {"FRANCE"}
    assert "what demo/checkpoints/0 thinks" in asked["decisionsNote"]
    entente("replay", game, "--out", page)
    played = data_of(page)
    for phase, each in played["decisions"].items():
        shares = [
            [choice["probability"] for choice in own["choices"]]
            for own in (each["FRANCE"], asked["decisions"][phase]["FRANCE"])
        ]
        assert shares[0] == pytest.approx(shares[1], rel=1e-2)
    entente("replay", game, "--policy", run, "--seat", "turkey", "--seat", "ITALY", "--out", page)
    assert {power for each in data_of(page)["decisions"].values() for power in each} == {"TURKEY", "ITALY"}


def test_a_policy_that_did_not_play_is_asked_about_all(run: Path, tmp_path: Path) -> None:
    out = tmp_path / "bots.json"
    entente("play", "--default", "greedy", "--until", 1901, "--out", out)
    assert "no recorded decisions; --policy RUN asks" in entente("replay", out)
    entente("replay", out, "--policy", run)
    assert len(data_of(out.with_suffix(".html"))["decisions"]["S1901M"]) == 7


def test_two_games_make_one_page(game: Path, tmp_path: Path) -> None:
    entente("play", "--default", "hold", "--until", 1901, "--out", tmp_path / "two.json")
    said = entente("replay", game, tmp_path / "two.json", "--out", tmp_path / "both.html")
    assert "two.json: 3 phases" in said
    assert data_of(tmp_path / "both.html")["parting"] == 0


def test_wrong_words_are_refused_in_one_line(run: Path, game: Path, tmp_path: Path) -> None:
    for words, error, reason in (
        ((game, game, game), RunError, "one game or two can be shown, and 3 were named"),
        ((game, "--seat", "FRANCE"), RunError, "give --policy too"),
        ((game, "--policy", tmp_path / "none"), RunError, "is no folder"),
        ((game, "--policy", run, "--seat", "SPAIN"), RunError, "there is no power 'SPAIN'"),
        ((tmp_path / "none.json",), ReportError, "none.json cannot be read"),
        ((game, "--out", tmp_path / "none" / "page.html"), Exception, "none"),
    ):
        with pytest.raises(error, match=reason):
            entente("replay", *words)


def test_from_python_too(run: Path, tmp_path: Path) -> None:
    plain = entente_api.play({"FRANCE": run}, until_year=1901)
    assert plain.decisions is None
    game = entente_api.play({"FRANCE": run}, until_year=1901, decisions=True)
    assert game.decisions is not None
    assert game.centers == plain.centers
    saved = game.save(tmp_path / "game.json")
    assert read_decisions(saved) == game.decisions
    assert data_of(game.html(tmp_path / "game.html"))["decisions"]["S1901M"]["FRANCE"]["choices"]


def data_of(page: Path) -> dict:
    text = page.read_text()
    start = text.index('id="data">') + len('id="data">')
    return json.loads(text[start : text.index("</script>", start)])
