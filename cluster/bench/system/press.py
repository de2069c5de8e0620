"""Decisions a second of the small policy in games with press, beside the same policy's in games without."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from cluster.bench.figure import Figure, interleaved_seconds, one_thread
from grpo_core.models.pretrained import make_small_model
from grpo_core.settings import PolicySettings
from opponents.play import play_game
from opponents.players.llm_policy import LLMPolicy, TokenizedLanguage
from services.environments.diplomacy.position import POWERS
from services.environments.diplomacy.settings import PRESS_ROUNDS, GameSettings
from services.environments.diplomacy.text.press_language import PressLanguage
from services.environments.diplomacy.world import Diplomacy
from services.environments.playing import Policy
from services.inference.torch_backend.engine import TorchEngine
from services.inference.word_tokenizer import make_word_tokenizer

UNTIL_YEAR = 1903
GAMES = 28  # at once, as an actor plays them
PARTNER = "honest"  # in the six other seats; a DumbBot where there is no press


@dataclass(frozen=True, slots=True)
class Played:
    """Decisions of the policy with a choice."""

    letters: int
    orders: int

    @property
    def decisions(self) -> int:
        """All of them."""
        return self.letters + self.orders


def run(rounds: int) -> list[Figure]:
    """Time the same number of games with and without press, ``rounds`` alternating timings a side."""
    language = PressLanguage()
    tokenizer = make_word_tokenizer(language.words(), language.word_pattern, language.joins)
    ends = {"eos_id": tokenizer.eos_token_id, "bos_id": tokenizer.bos_token_id, "pad_id": tokenizer.pad_token_id}
    with one_thread():
        model = make_small_model(PolicySettings(), len(tokenizer), **ends, seed=5)
        engine = TorchEngine(model, max_concurrent_decisions=GAMES)
        policy = LLMPolicy(engine, TokenizedLanguage(language, tokenizer))
        with asyncio.Runner() as runner:
            sides = {name: Games(runner, policy, press) for name, press in (("press", PRESS_ROUNDS), ("none", 0))}
            played = {name: games.play() for name, games in sides.items()}  # also fills the caches of legal lines
            seconds = interleaved_seconds({name: games.play for name, games in sides.items()}, rounds)
            runner.run(engine.close())
    rates = {name: played[name].decisions / seconds[name] for name in sides}
    with_press = played["press"]
    note = (
        f"{GAMES} games of one policy among six of {PARTNER} to {UNTIL_YEAR}, {PRESS_ROUNDS} rounds of letters; "
        f"{with_press.letters / with_press.decisions:.0%} of the decisions are letters; a game takes "
        f"{seconds['press'] / seconds['none']:.1f} times as long; median of {rounds}"
    )
    return [Figure("press", "decisions/s", rates["press"], rates["none"], "the same policy without press", note=note)]


@dataclass(frozen=True, slots=True)
class Games:
    """The games of one side."""

    runner: asyncio.Runner
    policy: LLMPolicy
    press_rounds: int

    def play(self) -> Played:
        """Play all at once; the policy has each country equally often."""
        world = Diplomacy(GameSettings(until_year=UNTIL_YEAR, press_rounds=self.press_rounds))
        bot = world.make_bot(PARTNER)

        async def one(number: int) -> list[str]:
            role = POWERS[number % len(POWERS)]
            seats: dict[str, Policy] = {**dict.fromkeys(POWERS, bot), role: self.policy}
            record = await play_game(world.new_game("", role, number), seats, number, learners=(role,))
            return [str(turn.keys.get("act", "orders")) for turn in record.learners[role].turns]

        async def play_all() -> list[list[str]]:
            return await asyncio.gather(*map(one, range(GAMES)))

        acts = [act for game in self.runner.run(play_all()) for act in game]
        return Played(acts.count("letters"), acts.count("orders"))
