"""A policy is evaluated alike in one process, in several, and on a Ray cluster, also where a machine is lost."""

from __future__ import annotations

import os
import signal
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from cluster.actors.initial_policy import make_policy
from cluster.configs.loader import dump_config, load_config
from cluster.errors import RunError
from cluster.evaluation.evaluate import Request, diplomacy_request, evaluate, evaluation_rows
from cluster.evaluation.tables.on_ray import on_ray
from cluster.evaluation.tables.places import Open, in_processes
from grpo_core.checkpoints.folders import weights_checksum
from grpo_core.checkpoints.store import save_checkpoint
from grpo_core.learner import Learner
from grpo_core.models.pretrained import save_model, weights_payload
from opponents.population.population import Population
from services.environments.diplomacy.ending import Ending
from services.environments.playing import Decision, View

pytestmark = pytest.mark.system
REQUEST = diplomacy_request(1, Ending(1902))


class DiesOnce:
    """A player whose process is killed at its first decision, in the first process that asks it."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    async def act(self, view: View, seat: str, seed: int) -> Decision:
        try:
            self.mark.touch(exist_ok=False)
        except FileExistsError:
            return Decision(())
        os.kill(os.getpid(), signal.SIGKILL)
        return Decision(())


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run with a checkpoint of random weights, and the same weights as a member of its population."""
    config = load_config("smoke")
    folder = tmp_path_factory.mktemp("run")
    (folder / "config.toml").write_text(dump_config(config))
    (folder / "run_id").write_text("run-0f\n")
    model, tokenizer = make_policy(config.policy, config.run.seed, config.world.language)
    save_checkpoint(
        folder,
        Learner(model, config.learner, config.grouping, seed=0),
        lambda path: save_model(model, tokenizer, path),
        {},
    )
    weights = folder / "population" / "v1.safetensors"
    weights.parent.mkdir()
    weights.write_bytes(weights_payload(model))
    with Population(folder / "population.json").transaction() as population:
        population.add_bot("greedy")
        population.add_snapshot(weights, version=1)
    return folder


def figures(request: Request, player: str, place: Open) -> dict[str, Any]:
    [row] = evaluation_rows(request, ["it"], evaluate(request, [player], ["random"], place))
    return row


def test_a_policy_plays_alike_in_processes_and_on_ray(run: Path) -> None:
    alone = figures(REQUEST, str(run), in_processes(1))
    assert figures(REQUEST, str(run), in_processes(2)) == alone
    assert figures(REQUEST, str(run), partial(on_ray, None, 2)) == alone


def test_a_member_of_a_population_is_a_player(run: Path) -> None:
    [policy] = [member for member in Population.load(run / "population.json").members if member.kind == "policy"]
    member, newest = (figures(REQUEST, name, in_processes(1)) for name in (f"{run}:{policy.id}", str(run)))
    assert (member.pop("version"), newest.pop("version")) == (1, 0)
    # The same tensors, in two files.
    checksums = (member.pop("checksum"), newest.pop("checksum"))
    assert checksums == (policy.checksum, weights_checksum(run / "checkpoints" / "0"))
    assert member == newest
    assert figures(REQUEST, f"{run}:bot/greedy", in_processes(1)) == figures(REQUEST, "greedy", in_processes(1))
    with pytest.raises(RunError, match="has no member 'bot/none'; there are bot/greedy, policy/v1"):
        figures(REQUEST, f"{run}:bot/none", in_processes(1))


def test_games_of_a_lost_process_are_played_by_the_others(tmp_path: Path) -> None:
    place = partial(on_ray, None, 2)
    measured = evaluate(REQUEST, [DiesOnce(tmp_path / "died")], ["hold"], place)
    assert (tmp_path / "died").exists()
    [row] = evaluation_rows(REQUEST, ["it"], measured)
    assert row["games"] == 7
    assert row["hold_share"] == 1.0
