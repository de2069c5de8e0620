"""The members that a run begins with, the champion among them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cluster.configs.loader import load_config
from cluster.driver.first_members import check_champion, open_population
from cluster.errors import ConfigError
from cluster.runs.folder import RunFolder
from grpo_core.checkpoints.folders import fingerprint
from grpo_core.models.pretrained import load_model, save_model
from opponents.champion.shipped import shipped_champion
from opponents.population.document import Document
from opponents.population.member import PopulationError
from opponents.settings import member_id
from tests.unit.opponents.population_cases import make_run


class Mirror:
    def publish(self, document: Document, population_file: Path) -> None:
        pass

    def clear(self) -> None:
        pass


def test_the_champion_is_a_first_member_that_stays_drawable(tmp_path: Path) -> None:
    config = load_config("smoke", ["policy.path=champion", "opponents.members={champion=2.0,random=1.0}"])
    folder, first = RunFolder(tmp_path), tmp_path / "checkpoints" / "0"
    save_model(*load_model(shipped_champion().folder), first)
    make_checkpoint(first)
    check_champion(config)
    population = open_population(config, folder, 0, Mirror())
    assert {member.id: member.weight for member in population.members} == {"bot/random": 1.0, "policy/champion": 2.0}
    champion = population["policy/champion"]
    assert (champion.created_at_update, champion.pinned, champion.source) == (0, True, "champion")
    assert champion.version == shipped_champion().version
    population.verify(champion)
    assert {path.name for path in (tmp_path / "population").iterdir()} == {"champion.safetensors"}
    resumed = open_population(config, folder, 0, Mirror())
    assert resumed.document() == population.document()


def test_a_champion_that_does_not_fit_is_no_member(tmp_path: Path) -> None:
    members = "opponents.members={champion=1.0,random=1.0}"
    make_run(tmp_path / "run", 1)
    (tmp_path / "run" / "population.json").unlink()
    with pytest.raises(PopulationError, match=r"champion does not fit this run's policy .*; leave it out, or start"):
        open_population(load_config("smoke", [members]), RunFolder(tmp_path / "run"), 0, Mirror())
    assert not (tmp_path / "run" / "population.json").exists()
    with pytest.raises(PopulationError, match=r"champion has policy.hidden_size = \d+, and this run has 4064; leave"):
        check_champion(load_config("smoke", [members, "policy.hidden_size=4064"]))
    check_champion(load_config("smoke", ["policy.hidden_size=4064"]))
    check_champion(load_config("kuhn"))


def make_checkpoint(folder: Path) -> None:
    (folder / "optimizer.safetensors").write_bytes(b"")
    (folder / "trainer_state.json").write_text("{}")
    files = {path.name: fingerprint(path) for path in folder.iterdir()}
    (folder / "manifest.json").write_text(json.dumps({"schema": 1, "version": 0, "files": files}))


def test_configs_name_it_as_a_member_and_as_an_anchor() -> None:
    config = load_config("smoke", ["opponents.members={champion=1.0,random=1.0}", 'opponents.anchors=["champion"]'])
    assert [member_id(name) for name in config.opponents.members] == ["policy/champion", "bot/random"]
    load_config("smoke", ['evaluation.against=["champion"]', 'evaluation.final_against=["champion","dumbbot"]'])
    for wrong, message in (
        ("opponents.members={champ=1.0}", "there are .*, champion, and remote:NAME"),
        ('evaluation.against=["champ"]', "there are .*, and champion"),
        ('evaluation.final_against=["champ"]', "evaluation.final_against: no bot is called 'champ'"),
    ):
        with pytest.raises(ConfigError, match=message):
            load_config("smoke", [wrong])
    with pytest.raises(ConfigError, match="there is no bot among the members"):
        load_config("smoke", ["opponents.members={champion=1.0}", "opponents.matchmaking=latest"])
    for world in ("kuhn", "word_problems"):  # the champion plays Diplomacy
        with pytest.raises(ConfigError):
            load_config(world, ['evaluation.against=["champion"]'])
