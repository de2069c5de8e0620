"""The population during training: it changes at updates, and never changes a line-up that was drawn before."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import save_file

from cluster.configs.loader import load_config
from cluster.driver import training
from cluster.driver.training import change_population, open_population
from cluster.runs.folder import RunFolder
from opponents.league.league import League
from opponents.matchmaking.matchmaker import Matchmaker
from opponents.population.document import Document
from opponents.population.population import Population

CONFIG = load_config("smoke", ["opponents.snapshot_every=2", "opponents.members={random=1.0, greedy=0.5}"])


class Learner:
    """Writes snapshots whose weights all have one value."""

    def __init__(self, value: float) -> None:
        self.value = value
        self.frozen: list[str] = []

    def write(self, file: str) -> None:
        path = Path(file)
        path.parent.mkdir(exist_ok=True)
        save_file({"w": np.float32([self.value])}, path)
        self.frozen.append(path.name)


class Mirror:
    def __init__(self) -> None:
        self.published: list[Document] = []

    def publish(self, document: Document, population_file: Path) -> None:
        self.published.append(document)

    def clear(self) -> None:
        self.published.clear()


@pytest.fixture(autouse=True)
def answers_without_ray(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(training, "get_answer", lambda answer, timeout_s, who: answer)


def renew(folder: RunFolder, population: Population, learner: Learner, version: int) -> None:
    """One update of the population."""
    writer = SimpleNamespace(snapshot=SimpleNamespace(remote=learner.write))
    with League(
        folder.path,
        population,
        CONFIG.opponents,
        world=CONFIG.world,
        num_generations=CONFIG.rollout.num_generations,
        seed=CONFIG.run.seed,
        version=version,
        resume=True,
    ) as league:
        change_population(
            SimpleNamespace(
                config=CONFIG, folder=folder, league=league, version=version, learner=writer, log=lambda _: None
            )  # type: ignore[arg-type]
        )


def drive(
    folder: RunFolder, learner: Learner, mirror: Any, first: int, last: int, *, resume: bool = False
) -> Population:
    """Train from version ``first`` to ``last``."""
    population = open_population(CONFIG, folder, first, mirror)
    for version in range(first if resume else first + 1, last + 1):
        renew(folder, population, learner, version)
    return population


def test_the_population_starts_with_the_config_and_grows_at_updates(tmp_path: Path) -> None:
    folder, learner, mirror = RunFolder(tmp_path), Learner(1), Mirror()
    population = drive(folder, learner, mirror, 0, 5)
    assert [member.id for member in population.members] == ["bot/random", "bot/greedy", "policy/v2", "policy/v4"]
    assert (population["policy/v4"].parent, population["policy/v4"].config_digest) == ("policy/v2", CONFIG.digest)
    assert learner.frozen == ["v2.safetensors", "v4.safetensors"]
    assert [document.update for document in mirror.published] == [0, 1, 2, 3, 4, 5]
    assert Population.load(folder.population).document() == population.document() == mirror.published[-1]


def test_member_added_by_hand_joins_at_the_next_update_and_survives_a_crash(tmp_path: Path) -> None:
    folder, mirror = RunFolder(tmp_path), Mirror()
    population = drive(folder, Learner(1), mirror, 0, 3)
    with Population.load(folder.population).transaction() as other:
        other.add_bot("dumbbot", created_at_update=other.join_update)
    assert "bot/dumbbot" not in population
    renew(folder, population, Learner(1), 4)
    assert population["bot/dumbbot"].created_at_update == 4
    assert {member.id for member in mirror.published[-1].members} >= {"bot/dumbbot", "policy/v4"}
    again = drive(folder, learner := Learner(2), mirror, 3, 4, resume=True)
    assert learner.frozen == ["v4.safetensors"]  # v2 is there; v4 is of updates that the crash undid
    assert {member.id for member in again.members} == {member.id for member in population.members}
    assert again["policy/v4"].checksum != population["policy/v4"].checksum
    again.verify(again["policy/v4"])


def test_snapshot_missed_by_a_crash_is_written_on_resume(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    drive(folder, Learner(1), Mirror(), 0, 1)
    population = drive(folder, learner := Learner(1), Mirror(), 2, 2, resume=True)
    assert learner.frozen == ["v2.safetensors"]
    assert "policy/v2" in population


def test_new_members_do_not_change_line_ups_that_may_have_been_drawn(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    population = drive(folder, Learner(1), Mirror(), 0, 5)
    matchmaker = Matchmaker(population, CONFIG.world, 2, seed=3)

    def drawn(bound: int) -> list[object]:
        return [matchmaker.block(index, newest_snapshot=bound) for index in range(21)]

    before = [drawn(bound) for bound in range(6)]
    with Population.load(folder.population).transaction() as other:
        other.add_bot("dumbbot", weight=50.0, created_at_update=other.join_update)
    population.refresh()
    assert [drawn(bound) for bound in range(6)] == before
    assert drawn(6) != before[5]
    # After a crash the run is back at 3, where blocks up to bound 5 may be half played.
    resumed = open_population(CONFIG, folder, 3, Mirror())
    matchmaker = Matchmaker(resumed, CONFIG.world, 2, seed=3)
    assert [drawn(bound) for bound in range(4)] == before[:4]
    renew(folder, resumed, Learner(1), 4)
    assert [drawn(bound) for bound in (4, 5)] == before[4:]
    with Population.load(folder.population).transaction() as other:
        assert other.add_bot("hold", created_at_update=other.join_update).created_at_update == 6
