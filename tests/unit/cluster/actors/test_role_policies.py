"""A specialist for each country: published together, swapped all or none, frozen singly, chosen by the power played."""

from __future__ import annotations

import asyncio
import dataclasses
import math
import pickle
from pathlib import Path

import numpy as np
import pytest

from cluster.actors.learner import LearnerWorker
from cluster.actors.rollout import RolloutWorker
from cluster.configs.loader import load_config
from cluster.diagnostics.gradient_audit import NoGradientsError, audit_gradients
from cluster.errors import ConfigError
from cluster.evaluation.players.opening import open_policy
from cluster.evaluation.records.decision_recorder import DecisionRecorder
from cluster.runs.folder import RunFolder, snapshot_files
from grpo_core.errors import CheckpointError
from grpo_core.models.lora import adapter_config_of, merged
from grpo_core.models.named_tensors import named_tensors
from grpo_core.models.pretrained import load_model
from grpo_core.models.role_adapters import role_adapter_payloads
from opponents.matchmaking.matchmaker import Matchmaker
from opponents.players.chat_players import ChatPlayers
from opponents.population.compatibility import compatible_weights
from opponents.population.importer import find_source
from opponents.population.member import PopulationError
from opponents.population.population import Population
from services.environments.diplomacy.game import DiplomacyGame
from services.environments.diplomacy.position import POWERS
from services.inference.engine import EngineError
from services.weights.payload import Payload, RolePart, WeightsError, make_payload, make_role_payload, verify
from tests.unit.cluster.actors.test_learner import updated, worker_at

LORA = ("policy.use_peft=true", "policy.specialists=true", "policy.lora_r=2", "learner.learning_rate=0.1")


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, LearnerWorker, list[Payload]]:
    """A run after two updates, and what it has published."""
    run = tmp_path_factory.mktemp("run")
    worker = worker_at(run, *LORA)
    payloads = [worker.publish(), *(updated(worker)[1] for _ in range(2))]
    return run, worker, payloads


def rollouts_of(run: Path, worker: LearnerWorker) -> RolloutWorker:
    folder = RunFolder(run)
    return RolloutWorker(worker._config, str(folder.checkpoints / "0"), str(folder.population), None)


async def written(rollouts: RolloutWorker, power: str) -> tuple[int, list[float]]:
    """Version and log-probabilities of the learner's first order sheet."""
    turn = (await rollouts._trained.act(DiplomacyGame(1901).position, power, 7)).turn
    return turn.policy_version, turn.logprobs.tolist()


def test_a_payload_of_roles_joins_their_files_under_one_checksum(
    trained: tuple[Path, LearnerWorker, list[Payload]],
) -> None:
    _, worker, (first, _, payload) = trained
    verify(payload)
    arrived: Payload = pickle.loads(pickle.dumps(payload, protocol=5))
    assert arrived == payload
    assert tuple(payload.by_role) == POWERS
    assert {power: bytes(data) for power, (data, _) in arrived.by_role.items()} == role_adapter_payloads(worker._model)
    probes = {probe.logprobs for _, probe in payload.by_role.values()}
    assert len(probes) == len({probe.prompts for _, probe in payload.by_role.values()}) == 7
    assert len({bytes(data) for data, _ in first.by_role.values()}) == 1, "before the first update all are alike"
    swapped = (RolePart("TURKEY", payload.parts[0].size, None), *payload.parts[1:])
    for wrong in (
        dataclasses.replace(payload, data=payload.data[:-1] + bytes([payload.data[-1] ^ 1])),
        dataclasses.replace(payload, parts=swapped),
    ):
        with pytest.raises(WeightsError, match="version 2 are damaged"):
            verify(wrong)


def test_specialists_train_bit_for_bit_the_same_across_a_restart(
    trained: tuple[Path, LearnerWorker, list[Payload]],
) -> None:
    run, worker, payloads = trained
    restarted = worker_at(run, *LORA, resume=True)
    assert restarted.version() == 2
    assert restarted.publish() == payloads[2]
    straight, resumed = updated(worker), updated(restarted)
    assert straight[1] == resumed[1] != payloads[2]
    payloads[2:] = [straight[1]]


def test_rollouts_play_each_power_with_its_specialist_and_swap_all_or_none(
    trained: tuple[Path, LearnerWorker, list[Payload]],
) -> None:
    run, worker, payloads = trained
    rollouts = rollouts_of(run, worker)
    newest = payloads[-1]

    async def play() -> None:
        await rollouts.ready()
        await rollouts.swap(payloads[0])
        before = [await written(rollouts, power) for power in POWERS]
        assert {version for version, _ in before} == {0}
        # The last one's probe is of other weights, the first six are right.
        liar = dict(newest.by_role)
        liar["TURKEY"] = (liar["TURKEY"][0], payloads[0].by_role["TURKEY"][1])
        with pytest.raises(EngineError, match=r"'learner/TURKEY#2' version .* were refused: .* old weights stay"):
            await rollouts.swap(
                make_role_payload(9, {power: (bytes(data), probe) for power, (data, probe) in liar.items()})
            )
        assert before == [await written(rollouts, power) for power in POWERS]
        one = {power: (bytes(data), probe) for power, (data, probe) in newest.by_role.items() if power == "FRANCE"}
        for payload in (make_payload(9, bytes(newest.by_role["FRANCE"][0])), make_role_payload(9, one)):
            with pytest.raises(WeightsError, match="version 9 are not one specialist for each role"):
                await rollouts.swap(payload)
        assert rollouts._version == 0
        unfinished = asyncio.create_task(written(rollouts, "FRANCE"))
        await asyncio.sleep(0)
        await rollouts.swap(newest)
        assert await unfinished == before[POWERS.index("FRANCE")], "written to its end as it began"
        after = [await written(rollouts, power) for power in POWERS]
        assert {version for version, _ in after} == {newest.version}
        assert all(one[1] != other[1] for one, other in zip(before, after, strict=True))
        names = {name for name in rollouts._engine._batches if name != "learner"}
        assert names == {f"learner/{power}#3" for power in POWERS}, "nothing is left of older swaps"
        # The very weights: what the torch engine writes as a plain engine of the merged model.
        opened = open_policy(str(run), ChatPlayers({}))
        for power, (_, logprobs) in zip(POWERS, after, strict=True):
            decision = await opened.act(DiplomacyGame(1901).position, power, 7)
            assert np.allclose(decision.turn.logprobs, logprobs, atol=1e-5)

    asyncio.run(play())


def test_snapshots_of_specialists_play_only_their_own_country(
    trained: tuple[Path, LearnerWorker, list[Payload]], tmp_path: Path
) -> None:
    run, worker, _ = trained
    population = Population(run / "population.json")
    population.add_bot("random", weight=1e-9)
    for version in (1, 2):
        target = run / "population" / f"v{version}.safetensors"
        assert worker.snapshot(str(target)) == worker.version()
        files = snapshot_files(target, POWERS)
        assert sorted(path.name for path in target.parent.glob(f"v{version}*")) == sorted(
            path.name for path in files.values()
        )
        for country, file in files.items():
            assert file.read_bytes() == role_adapter_payloads(worker._model)[country]
            population.add_snapshot(file, version=version, config_digest="d", country=country)
    population.save()
    member = population["policy/v2-ITALY"]
    assert (member.country, member.form, member.parent) == ("ITALY", "adapter", "policy/v1-ITALY")
    settings = worker._config.opponents
    seen = set()
    for index in range(14):
        block = Matchmaker(population, worker._config.world, 2, 0, settings).block(index)
        assert all(who == "bot/random" or who.endswith(power) for power, who in block.opponents)
        seen |= {who for _, who in block.opponents}
    assert {"policy/v1-ITALY", "policy/v2-ITALY"} <= seen
    newest = Matchmaker(
        population, worker._config.world, 2, 0, settings.model_copy(update={"max_snapshots": 1})
    ).drawable()
    assert {who.id for who in newest} == {"bot/random", *(f"policy/v2-{power}" for power in POWERS)}
    rollouts = rollouts_of(run, worker)

    async def play() -> None:
        opponent = await rollouts._opponent(member)
        await rollouts.swap(worker.publish())
        decision = await opponent.act(DiplomacyGame(1901).position, "ITALY", 7)
        assert decision.turn.policy_version == 2
        assert decision.turn.logprobs.tolist() == (await written(rollouts, "ITALY"))[1]

    asyncio.run(play())


def test_commands_that_need_one_policy_refuse_specialists_in_one_line(
    trained: tuple[Path, LearnerWorker, list[Payload]], tmp_path: Path
) -> None:
    run, _, payloads = trained
    base, _ = load_model(run / "checkpoints" / "0", shared_base=True)
    for data, _ in payloads[-1].by_role.values():
        assert adapter_config_of(data) is not None
        assert merged(named_tensors(base), data).keys() == named_tensors(base).keys()
    with pytest.raises(CheckpointError, match=r"holds specialists .* without policy.specialists") as caught:
        worker_at(tmp_path / "next", f"policy.path={run / 'checkpoints' / '2'}")
    assert "\n" not in str(caught.value)
    with pytest.raises(PopulationError, match="say with --country whose joins"):
        compatible_weights(find_source(run), run)
    (run / "config.toml").write_text("[policy]\nuse_peft = true\nspecialists = true\n")
    with pytest.raises(NoGradientsError, match="this run has a specialist for each"):
        audit_gradients(run, (), lambda name, steps: lambda done: None)


@pytest.mark.parametrize(
    ("override", "hint"),
    [
        ("policy.use_peft=false", "specialists needs use_peft = true"),
        ("grouping.gradient_surgery=pcgrad", "gradient_surgery and alignment have nothing to do"),
        ("alignment.weight=0.1", "gradient_surgery and alignment have nothing to do"),
        ("opponents.lineup=same", "set opponents.lineup = mixed"),
    ],
)
def test_contradicting_settings_are_refused_in_one_line(override: str, hint: str) -> None:
    with pytest.raises(ConfigError, match=hint) as caught:
        load_config("smoke", [*LORA, override])
    assert "\n" not in str(caught.value)


def test_the_decisions_of_a_specialist_are_recorded_with_its_own_probabilities(
    trained: tuple[Path, LearnerWorker, list[Payload]],
) -> None:
    run, worker, payloads = trained
    rollouts = rollouts_of(run, worker)
    recorder = DecisionRecorder()

    async def record() -> float:
        await rollouts.swap(payloads[-1])
        seat = recorder.watched("demo", rollouts._trained)
        turn = (await seat.act(DiplomacyGame(1901).position, "ITALY", 7)).turn
        assert turn is not None
        return float(turn.logprobs.sum())

    logprob = asyncio.run(record())
    (decision,) = recorder.recorded("one").decisions
    assert decision.note == ""
    assert recorder.recorded("one").prompt(decision).startswith("ITALY")
    assert sum(math.log(choice.probability) for choice in decision.choices) == pytest.approx(logprob, abs=5e-3)
