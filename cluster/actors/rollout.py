"""The rollout actor: plays many games at once with one engine, and stores finished episodes in the replay buffer."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

from cluster.actors.calls_together import CallsTogether
from cluster.actors.frozen_policies import FrozenPolicies
from cluster.actors.kept_games import keeps, save_game
from cluster.actors.messages import BlockReport
from cluster.actors.role_policies import Specialists
from cluster.configs.checks import has_champion
from cluster.configs.schema import Config
from cluster.errors import RunError
from cluster.evaluation.evaluation_games import play_evaluation_game
from cluster.evaluation.players.opening import language_policy, open_policy
from cluster.evaluation.records.decision_recorder import DecisionRecorder
from cluster.evaluation.records.game_origins import (
    describe_bot,
    describe_learner,
    describe_member,
    describe_player,
)
from cluster.runs.provenance import commit
from cluster.runtime.engines import make_engine, spare_what_is_loaded
from grpo_core.checkpoints.folders import is_whole_checkpoint
from grpo_core.types import Episode, PolicyVersion
from opponents.champion.shipped import CHAMPION
from opponents.listening.talk_credit import TalkCredit
from opponents.matchmaking.lineup import LineupBlock
from opponents.play import make_episode, play_game
from opponents.player_names import MUTED_PREFIX, player_name
from opponents.players.chat_players import ChatPlayers
from opponents.players.llm_policy import LLMPolicy, TokenizedLanguage
from opponents.population.member import Member, package_version
from opponents.population.redis_mirror import PopulationMirror, frozen_weights
from opponents.population.saved_players import check_saved_player
from opponents.ratings.game_score import GameScore
from services.environments.evaluation import EvaluationGame, EvaluationResult
from services.environments.playing import Parts, Policy
from services.environments.seat_player import SeatPlayer
from services.inference.engine import LEARNER
from services.replay.buffer import ReplayBuffer
from services.weights.payload import Payload, verify

BUFFER_THREADS = 8  # of one actor; each may wait for a replay server that is away

A = TypeVar("A")
T = TypeVar("T")


class RolloutWorker:
    """Plays blocks and evaluations; a plain asyncio object that lives in a ``RolloutActor``."""

    def __init__(
        self,
        config: Config,
        policy_folder: str,
        population_file: str,
        buffer: ReplayBuffer | None,
        mirror: PopulationMirror | None = None,
    ) -> None:
        """Load the engine with the first weights, from the Hugging Face folder ``policy_folder``.

        Frozen policies lie beside ``population_file``, or in ``mirror`` if they are not on this machine. Without a
        ``buffer`` only evaluations can be played.
        """
        self._config = config
        self._world = config.world
        self._as_evaluated = config.world.as_evaluated(config.evaluation)
        self._engine, tokenizer = make_engine(config, Path(policy_folder))
        self._tokens = TokenizedLanguage(self._world.language, tokenizer, config.policy, config.inference)
        self._population_file = Path(population_file)
        self._games = self._population_file.parent / "games"
        self._mirror = mirror
        self._buffer = buffer
        # Its own threads: finished games wait there while the replay server is away, and engines need the others.
        self._buffer_threads = ThreadPoolExecutor(BUFFER_THREADS, "entente-buffer")
        self._store: CallsTogether[Episode, None] = CallsTogether("store episodes", self._append)
        self._stored_ids: CallsTogether[list[str], frozenset[str]] = CallsTogether("ask for ids", self._stored)
        self._specialists: Specialists | None = None
        if config.policy.specialists:
            self._specialists = Specialists(self._engine, self._world.roles, self._language_policy)
        self._trained = self._learner_seat(config.inference.temperature)
        self._talk_credit = TalkCredit.wanted(self._trained, self._world.reward_weights)
        self._bots: dict[str, Policy] = {}
        self._champions: dict[str, tuple[Policy, SeatPlayer]] = {}  # with and without simulated games
        self._saved_players: dict[str, Policy] = {}
        self._opening = asyncio.Lock()
        self._table_seats = asyncio.Semaphore(config.rollout.games_per_actor)
        self._remotes = ChatPlayers(config.opponents.remotes, self._world.language)
        max_loaded = config.opponents.max_snapshots * config.policies_per_version  # what may be drawn
        self._frozen = FrozenPolicies(self._load_frozen, self._engine.remove_policy, max_loaded)
        self._version = -1  # of the learner's weights that were swapped in
        self._checksum = ""
        self._swapped = asyncio.Condition()

    async def ready(self) -> Mapping[str, float]:
        """Warm up the engine with one decision; return its counters. Raises EngineError if the engine failed."""
        view, seat = self._world.probes(self._world.roles)[0]
        await self._language_policy(LEARNER, 1.0).act(view, seat, seed=0)  # specialists come with a swap
        spare_what_is_loaded()
        return self._engine.stats()

    async def swap(self, payload: Payload) -> float:
        """Take the learner's new weights; return the seconds it took, including decisions in flight.

        After an error the old weights stay in use. Raises WeightsError if the payload does not match its checksum;
        EngineError if the engine refuses the weights, or its results with them differ from the learner's.
        """
        start = time.perf_counter()
        verify(payload)
        if payload.version < self._version:
            return 0.0  # overtaken by a newer version on the way
        if self._specialists is not None:
            await self._specialists.swap(payload)
        else:
            await self._engine.update_weights(payload.data, payload.version, probe=payload.probe)
        async with self._swapped:
            self._version, self._checksum = payload.version, payload.checksum
            self._swapped.notify_all()
        return time.perf_counter() - start

    async def play_block(self, block: LineupBlock, members: Sequence[Member], version: int) -> BlockReport:
        """Play the games of a block that the buffer does not hold yet, and store each episode as its game ends.

        ``members`` are the population members that the block names. The first decision is made with the learner's
        weights of ``version`` or newer ones; raises RunError if these did not arrive in time.
        """
        assert self._buffer is not None, "blocks need a replay buffer"
        await self._wait_for_weights(version)
        by_id = {member.id: member for member in members}
        # Self-play seats are the learner's own: they need no member.
        opponents = [by_id[member_id] for member_id in {member_id for _, member_id in block.opponents} - {LEARNER}]
        with self._frozen.in_use(member.id for member in opponents):
            players: dict[str, Policy] = {member.id: await self._opponent(member) for member in opponents}
            players[LEARNER] = self._trained
            seats = {role: players[player] for role, player in block.players.items()}
            ids = [f"{block.block_id}/{member}" for member in range(block.num_generations)]
            present = await self._stored_ids(ids)
            missing = [member for member in range(block.num_generations) if ids[member] not in present]
            played = await asyncio.gather(*(self._play_member(block, member, seats) for member in missing))
        scores = tuple(score for score, _ in played if score is not None)
        return BlockReport(block, len(missing), scores, tuple(outcome for _, outcome in played))

    async def play_evaluation(self, games: Sequence[EvaluationGame], version: int) -> list[EvaluationResult]:
        """Play evaluation games concurrently, with weights as in ``play_block``."""
        await self._wait_for_weights(version)
        return list(await asyncio.gather(*(self._evaluate(game) for game in games)))

    async def sleep(self) -> None:
        """Finish the decisions in flight, hold the games, and free the GPU; ``swap`` must wait until ``wake``.

        Raises EngineError if the decisions did not finish in time.
        """
        await self._engine.sleep()

    async def wake(self) -> None:
        """Continue after ``sleep``."""
        await self._engine.wake()

    async def stats(self) -> Mapping[str, float]:
        """Return the counters of the engine since its start, and of remote players with the prefix ``remote_``."""
        return {**self._engine.stats(), **self._remotes.totals()}

    async def close(self) -> None:
        """Free the engine and the connections to endpoints, buffer and mirror."""
        await self._engine.close()
        await self._remotes.close()
        if self._mirror is not None:
            self._mirror.close()
        if self._buffer is not None:
            self._buffer.hurry()
            self._buffer_threads.shutdown()
            self._buffer.close()

    async def _wait_for_weights(self, version: int) -> None:
        """Wait for a swap sent earlier: Ray may start a later call while the weights are still being fetched."""
        try:
            async with asyncio.timeout(self._config.rollout.swap_timeout_s), self._swapped:
                await self._swapped.wait_for(lambda: self._version >= version)
        except TimeoutError:
            raise RunError(
                f"weights of version {version} did not reach a rollout actor within "
                f"{self._config.rollout.swap_timeout_s:.0f} s (it has {self._version}); is the learner's node up?"
            ) from None

    async def _play_member(
        self, block: LineupBlock, member: int, seats: Mapping[str, Policy]
    ) -> tuple[GameScore | None, Parts]:
        """Play one game and store its episode; return the score, if there are opponents, and the learner's figures."""
        assert self._buffer is not None
        world, learner, role = self._world, self._config.learner, block.role
        async with self._table_seats:
            seed = block.game_seed(member)
            game = world.new_game(block.start, role, seed, game_id=f"{block.block_id}-{member}")
            recorder = self._recorder(block)
            if recorder is not None:
                players = self._described(block)
                seats = {**seats, role: recorder.watched(players[role].player, seats[role])}
            record = await play_game(
                game,
                seats,
                seed,
                learners=(role,),
                reward_weights=world.reward_weights,
                discount=learner.discount if learner.returns == "per_phase" else 1.0,
                credit=self._talk_credit,
            )
            if recorder is not None:
                saved = world.saved_game(game, players, seed, commit(), package_version())
                if saved is not None:
                    save_game(self._games, block.block_id, member, saved, recorder)
        episode = make_episode(world, block, member, role, record)
        await self._store(episode)
        standing = record.result.standing
        return None if standing is None else GameScore(block.players, standing), episode.outcome

    def _recorder(self, block: LineupBlock) -> DecisionRecorder | None:
        """A recorder for a game that is kept; None for others, and on a machine without the run's folder."""
        if not keeps(self._config, block.block_id) or not self._games.is_dir():
            return None
        return DecisionRecorder()

    def _described(self, block: LineupBlock) -> dict[str, SeatPlayer]:
        config = self._config
        temperature, decoding = config.inference.temperature, config.inference.decoding
        weights = PolicyVersion(self._version, self._checksum)
        learner = describe_learner(config.run.name, weights, decoding, temperature)
        return {
            role: learner if player == LEARNER else describe_member(player, decoding, temperature)
            for role, player in block.players.items()
        }

    async def _append(self, episodes: list[Episode]) -> list[None]:
        assert self._buffer is not None
        await self._in_buffer_thread(self._buffer.append, episodes)
        return [None] * len(episodes)

    async def _stored(self, asked: list[list[str]]) -> list[frozenset[str]]:
        """For each list, those of its ids that the buffer holds."""
        assert self._buffer is not None
        found = await self._in_buffer_thread(self._buffer.stored_ids, [each for ids in asked for each in ids])
        return [found.intersection(ids) for ids in asked]

    async def _in_buffer_thread(self, call: Callable[[list[A]], T], argument: list[A]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._buffer_threads, call, argument)

    async def _evaluate(self, spec: EvaluationGame) -> EvaluationResult:
        config = self._config
        temperature = config.evaluation.temperature if spec.temperature is None else spec.temperature
        candidate = self._learner_seat(temperature)
        async with self._table_seats:
            weights = PolicyVersion(self._version, self._checksum)
            learner = describe_learner(config.run.name, weights, config.inference.decoding, temperature)
            if spec.is_muted:
                learner = replace(learner, player=f"{MUTED_PREFIX}{learner.player}")
            opponent, told = self._anchor(spec.against, candidate)
            return await play_evaluation_game(self._as_evaluated, spec, candidate, opponent, (learner, told))

    def _learner_seat(self, temperature: float) -> Policy:
        if self._specialists is not None:
            return self._specialists.seat(temperature)
        return self._language_policy(LEARNER, temperature)

    def _language_policy(self, name: str, temperature: float) -> LLMPolicy:
        return language_policy(self._engine, self._tokens, self._config.inference, name, temperature)

    def _anchor(self, name: str, candidate: Policy) -> tuple[Policy, SeatPlayer]:
        """An opponent of evaluations and its description; a champion is opened once."""
        if player_name(name).saved != CHAMPION or not has_champion(self._world):
            return self._bot(name) if self._world.has_opponents else candidate, describe_bot(name)
        if name not in self._champions:
            policy = open_policy(name, self._remotes, world=self._world, evaluation=True)
            self._champions[name] = policy, describe_player(name, self._remotes, evaluation=True)
        return self._champions[name]

    def _bot(self, name: str) -> Policy:
        if name not in self._bots:
            self._bots[name] = self._world.make_bot(name)
        return self._bots[name]

    async def _opponent(self, member: Member) -> Policy:
        if member.kind == "bot":
            return self._bot(member.name)
        if member.kind == "remote":
            return self._remotes.member(member)
        if member.kind == "player":
            return await self._saved_player(member)
        return await self._frozen.policy(member)

    async def _saved_player(self, member: Member) -> Policy:
        """A policy in its own folder, as evaluations play it; it is opened once, with an engine of its own."""
        async with self._opening:
            if member.id not in self._saved_players:
                source = await asyncio.to_thread(check_saved_player, member)
                policy = open_policy(source, self._remotes, world=self._world, evaluation=True)
                self._saved_players[member.id] = policy
        return self._saved_players[member.id]

    async def _load_frozen(self, member: Member) -> Policy:
        weights = await asyncio.to_thread(frozen_weights, member, self._population_file, self._mirror)
        await self._engine.update_weights(weights, member.version, policy=member.id)
        return self._language_policy(member.id, self._config.inference.temperature)


def wait_for_checkpoint(folder: Path, timeout_s: float) -> None:
    """Wait for the first checkpoint, which the learner writes while the actors start."""
    deadline = time.monotonic() + timeout_s
    while not is_whole_checkpoint(folder):
        if time.monotonic() > deadline:
            raise RunError(f"the learner wrote no checkpoint to {folder} within {timeout_s:.0f} s")
        time.sleep(0.05)
