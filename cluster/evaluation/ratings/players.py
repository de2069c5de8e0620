"""The players of rating matches: bots, remote players, and all policies of a run in one engine."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from cluster.configs.schema import Config
from cluster.errors import RunError
from cluster.evaluation.players.opening import SavedSpecialists, language_policy, open_policy
from grpo_core.checkpoints.folders import checkpoint_versions
from opponents.players.chat_players import ChatPlayers
from opponents.population.member import Member
from opponents.population.population import Population
from opponents.population.saved_players import check_saved_player
from opponents.settings import REMOTE_PREFIX
from services.environments.environment import World
from services.environments.playing import Policy

if TYPE_CHECKING:
    from services.inference.torch_backend.engine import TorchEngine


def outsider_id(name: str, bots: Collection[str]) -> str:
    """Return the player id of one of a world's bots or ``remote:NAME``. Raises RunError for another name."""
    if name in bots:
        return f"bot/{name}"
    if name.startswith(REMOTE_PREFIX):
        return f"remote/{name.removeprefix(REMOTE_PREFIX)}"
    raise RunError(f"{name!r} is neither a bot ({', '.join(bots)}) nor remote:NAME")


class RatingPlayers:
    """Policies by player id, for use and closing in one event loop."""

    def __init__(
        self,
        config: Config,
        run_dir: Path,
        population: Population,
    ) -> None:
        """Open no player yet; the config and the population are those of the run."""
        self.by_id: dict[str, Policy] = {}
        self._config = config
        self._world: World = config.world
        self._inference = config.inference
        self._run_dir = run_dir
        self._population = population
        self._remotes = ChatPlayers(config.opponents.remotes, self._world.language)
        self._engine: TorchEngine | None = None

    async def open(self, players: Sequence[str]) -> None:
        """Open players of the population, outsiders and the learner.

        Raises PopulationError if a member has changed since it joined, EndpointError if there is no such remote player,
        CheckpointError or EngineError if a policy cannot be loaded or does not fit the run's model.
        """
        members = {member.id: member for member in self._population.members}
        policies = []
        for player in players:
            member = members.get(player)
            kind, _, name = player.partition("/")
            if kind == "bot":
                if member is not None:
                    self._population.verify(member)
                self.by_id[player] = self._world.make_bot(name)
            elif kind == "remote":
                self.by_id[player] = self._remotes.member(member) if member else self._remotes.policy(name)
            elif kind == "player" and member is not None:
                source = await asyncio.to_thread(check_saved_player, member)
                self.by_id[player] = open_policy(source, self._remotes, world=self._world, evaluation=True)
            else:
                policies.append((player, member))
        if policies:
            await self._open_policies(policies)

    async def close(self) -> None:
        """Close connections and free the engine."""
        await self._remotes.close()
        if self._engine is not None:
            await self._engine.close()

    async def _open_policies(self, policies: Sequence[tuple[str, Member | None]]) -> None:
        # torch takes seconds to import; bots do not need it.
        from grpo_core.checkpoints.store import load_checkpoint
        from grpo_core.models.pretrained import load_model, saved_specialists
        from opponents.players.llm_policy import LLMPolicy, TokenizedLanguage
        from services.inference.torch_backend.engine import TorchEngine

        folders = [self._run_dir / "checkpoints" / str(version) for version in checkpoint_versions(self._run_dir)]
        if not folders:
            raise RunError(f"{self._run_dir} has no checkpoint; its policies need the model there")
        newest = folders[-1]
        model, tokenizer = load_model(folders[0], shared_base=True)  # the model that adapters belong to
        engine = self._engine = TorchEngine(
            model, max_concurrent_decisions=self._inference.max_concurrent_decisions, threads=self._inference.threads
        )
        tokens = TokenizedLanguage(self._world.language, tokenizer, self._config.policy, self._inference)

        def player_of(policy: str) -> LLMPolicy:
            return language_policy(engine, tokens, self._inference, policy)

        roles = saved_specialists(newest)
        for player, member in policies:
            if member is None and roles:
                load_checkpoint(newest)
                self.by_id[player] = SavedSpecialists(newest, roles, self._world.roles, engine, player_of)
                continue
            version = int(newest.name) if member is None else member.version
            await engine.update_weights(await asyncio.to_thread(self._weights, member, newest), version, policy=player)
            self.by_id[player] = player_of(player)

    def _weights(self, member: Member | None, newest: Path) -> bytes:
        """Load the weights of a member, or of the newest checkpoint, and compare them with their checksums."""
        from grpo_core.checkpoints.store import load_checkpoint
        from grpo_core.models.pretrained import load_model, weights_payload

        if member is not None:
            self._population.verify(member)
            return self._population.weights_path(member).read_bytes()
        load_checkpoint(newest)
        return weights_payload(load_model(newest)[0])
