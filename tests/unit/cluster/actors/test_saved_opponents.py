"""Rollouts play against saved policies of another shape, each with its own prompt and engine."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from cluster.actors.initial_policy import make_policy
from cluster.actors.rollout import RolloutWorker
from cluster.configs.loader import dump_config, load_config
from cluster.configs.shareable import shareable
from cluster.driver.saved_opponents import check_saved_opponents
from cluster.errors import ConfigError, RunError
from cluster.evaluation.records.game_origins import describe_member
from cluster.runs.folder import RunFolder
from grpo_core.models.pretrained import save_model
from opponents.champion.shipped import shipped_champion
from opponents.matchmaking.lineup import LineupBlock, block_name
from opponents.players.chat_players import add_members
from opponents.population.member import PopulationError
from opponents.population.population import Population
from services.environments.diplomacy.position import POWERS
from services.replay.memory_buffer import MemoryBuffer
from tests.unit.cluster.actors.test_learner import worker_at

NOTES = ("policy.notes=true", "policy.context_length=768", "inference.max_completion_length=448")


@pytest.fixture
def victim(tmp_path: Path) -> Path:
    """The folder of a run whose policy reads notes and is wider than that of the smoke config."""
    run = tmp_path / "victim"
    config = load_config("smoke", [*NOTES, "policy.hidden_size=160"])
    save_model(*make_policy(config.policy, 1, config.world.language), run / "imitated" / "dumbbot")
    (run / "run_id").write_text("victim-0f\n")
    (run / "config.toml").write_text(dump_config(config))
    return run / "imitated" / "dumbbot"


def members(victim: Path) -> tuple[str, ...]:
    return (f"opponents.players={{victim='{victim}'}}", "opponents.members={'player:victim'=2.0,champion=1.0}")


def test_a_game_is_played_against_a_policy_of_another_shape(tmp_path: Path, victim: Path) -> None:
    buffer, folder = MemoryBuffer(group_timeout_s=60), RunFolder(tmp_path / "run")
    learner = worker_at(folder.path, "game.until_year=1901", *members(victim), buffer=buffer)
    population = Population(folder.population)
    add_members(population, learner._config.opponents)
    population.save()
    rollouts = RolloutWorker(learner._config, str(folder.checkpoints / "0"), str(folder.population), buffer)
    names = ["player/victim", "player/champion"]
    others = tuple((power, names[place % 2]) for place, power in enumerate(POWERS) if power != "ITALY")
    block = LineupBlock(0, block_name(0), "ITALY", others, 2, 5, "digest", place=POWERS.index("ITALY"))

    async def go() -> None:
        await rollouts.swap(learner.publish())
        report = await rollouts.play_block(block, population.members, 0)
        assert report.games == 2

    asyncio.run(go())
    assert {member.id for member in population.members} == set(names)


def test_a_saved_policy_joins_with_its_weights_and_must_keep_them(tmp_path: Path, victim: Path) -> None:
    config = load_config("smoke", list(members(victim)))
    check_saved_opponents(config)
    population = Population(tmp_path / "population.json")
    add_members(population, config.opponents)
    population.save()
    member = Population.load(population.path)["player/victim"]
    assert (member.kind, member.weight, member.source, member.version) == ("player", 2.0, str(victim.absolute()), 0)
    champion = population["player/champion"]
    assert (champion.source, champion.version, champion.checksum) == (
        "champion", shipped_champion().version, shipped_champion().checksum
    )  # fmt: skip
    population.verify(member)
    assert describe_member(member.id, "constrained", 1.0).player == "player:victim"
    weights = victim / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-1] + b"\x01")
    with pytest.raises(PopulationError, match=r"player/victim: the weights of .* are not those that joined"):
        population.verify(member)
    victim.rename(tmp_path / "elsewhere")
    with pytest.raises(PopulationError, match=r"player/victim is in .*, which is not seen here: put it back"):
        population.verify(member)
    with pytest.raises(RunError, match=r"opponents.players: victim: .* is neither a bot"):
        check_saved_opponents(config)
    with pytest.raises(PopulationError, match=r"player victim: there is no folder"):
        add_members(Population(tmp_path / "other.json"), config.opponents)


def test_configs_name_saved_policies(victim: Path) -> None:
    config = load_config(
        "smoke", [*members(victim), 'opponents.anchors=["player:victim"]', "opponents.anchor_share=1.0"]
    )
    assert shareable(config)["opponents"]["players"] == {"victim": victim.name}
    for wrong, message in (
        (["opponents.members={'player:other'=1.0}"], r"no player is called 'other'; name its folder in"),
        (["opponents.members={champ=1.0}"], r"there are .*, champion, player:NAME, and remote:NAME"),
        (["opponents.players={'a b'='x'}"], r"the name of a player is letters"),
        (["opponents.players={champion='x'}"], r"champion is the policy that comes with the package"),
        ([*members(victim), "opponents.matchmaking=latest"], r"there is no bot among the members"),
        (['evaluation.against=["champ"]'], r"there are .*, champion, and policy:champion"),
        (['evaluation.final_against=["champ"]'], r"evaluation.final_against: no bot is called 'champ'"),
    ):
        with pytest.raises(ConfigError, match=message):
            load_config("smoke", wrong)
    load_config("smoke", ['evaluation.against=["champion"]', 'evaluation.final_against=["champion","dumbbot"]'])
    for world in ("kuhn", "word_problems"):  # the champion plays Diplomacy
        with pytest.raises(ConfigError):
            load_config(world, ['evaluation.against=["champion"]'])


def test_a_policy_of_another_world_is_no_opponent(tmp_path: Path, victim: Path) -> None:
    config = load_config("kuhn")
    run = tmp_path / "kuhn"
    save_model(*make_policy(config.policy, 1, config.world.language), run / "policy")
    (run / "run_id").write_text("kuhn-0f\n")
    (run / "config.toml").write_text(dump_config(config))
    with pytest.raises(RunError, match=r"opponents.players: victim: .* was trained in the world kuhn"):
        check_saved_opponents(load_config("smoke", list(members(run / "policy"))))
