"""Games that a model plays in this process, as episodes of an update: what ``EpisodeTrainer`` asks for.

play = Games(load_config("kuhn"), tokenizer, opponents=("random",), blocks=6)
episodes = play(model, 0)
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from transformers import PreTrainedModel, PreTrainedTokenizerBase

from cluster.configs.schema import Config
from cluster.evaluation.players.opening import language_policy
from grpo_core.seeds import derive_seed, digest
from grpo_core.types import Episode
from opponents.matchmaking.lineup import LineupBlock, block_name
from opponents.play import make_episode, play_game
from opponents.players.llm_policy import TokenizedLanguage
from services.environments.playing import Policy
from services.inference.torch_backend.engine import TorchEngine


class Games:
    """Plays blocks of games of a config's world: the model in one role, which the blocks take in turn, bots beside it.

    All games of a block have the same start, role and opponents, and ``rollout.num_generations`` different seeds.
    """

    def __init__(
        self, config: Config, tokenizer: PreTrainedTokenizerBase, blocks: int, opponents: Sequence[str] = ("random",)
    ) -> None:
        """Seat ``opponents``, names of the world's bots, in turn at all other seats of a block.

        Raises ValueError for a bot that the world does not have.
        """
        self._config, self._world, self._blocks = config, config.world, blocks
        self._tokens = TokenizedLanguage(self._world.language, tokenizer, config.policy, config.inference)
        self._bots = {name: self._world.make_bot(name) for name in opponents} if self._world.has_opponents else {}
        self._starts = self._world.starts()

    def __call__(self, model: PreTrainedModel, update: int) -> list[Episode]:
        """The episodes of one update, by this model's weights as they are now."""
        return asyncio.run(self._play(model, update))

    async def _play(self, model: PreTrainedModel, update: int) -> list[Episode]:
        # The engine owns its model, and TRL has changed how its own one is called.
        own = type(model)(model.config)
        own.load_state_dict(model.state_dict())
        engine = TorchEngine(
            own.to(model.device).eval(), max_concurrent_decisions=self._config.inference.max_concurrent_decisions
        )
        policy = language_policy(engine, self._tokens, self._config.inference)
        try:
            first = update * self._blocks
            played = await asyncio.gather(*(self._play_block(policy, first + at) for at in range(self._blocks)))
        finally:
            await engine.close()
        return [episode for episodes in played for episode in episodes if episode.turns]

    async def _play_block(self, policy: Policy, index: int) -> list[Episode]:
        world, learner = self._world, self._config.learner
        role = world.roles[index % len(world.roles)]
        others = [each for each in world.roles if each != role] if world.has_opponents else []
        names = list(self._bots)
        bot = names[index // len(world.roles) % len(names)] if names else ""
        seed = derive_seed(self._config.run.seed, "trl", index)
        block = LineupBlock(
            index=index,
            block_id=block_name(index),
            role=role,
            opponents=tuple((each, f"bot/{bot}") for each in others),
            num_generations=self._config.rollout.num_generations,
            seed=seed,
            lineup=digest([role, bot]),
            start=self._starts.draw(role, seed),
            place=world.roles.index(role),
        )
        seats: dict[str, Any] = dict.fromkeys(others, self._bots[bot]) | {role: policy}

        async def member(number: int) -> Episode:
            own = block.game_seed(number)
            record = await play_game(
                world.new_game(block.start, role, own),
                seats,
                own,
                learners=(role,),
                reward_weights=world.reward_weights,
                discount=learner.discount if learner.returns == "per_phase" else 1.0,
            )
            return make_episode(world, block, number, role, record)

        return list(await asyncio.gather(*(member(number) for number in range(block.num_generations))))
