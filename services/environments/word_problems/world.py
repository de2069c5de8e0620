"""Word problems as a world: instruction variants are roles, and one question after another is the whole game."""

from __future__ import annotations

import json
import random
from collections.abc import Mapping, Sequence
from typing import Any

from grpo_core.seeds import derive_seed
from grpo_core.types import Measure
from services.environments.environment import World
from services.environments.evaluation import EvaluationGame, EvaluationResult
from services.environments.playing import Bot, Game
from services.environments.seat_player import SeatPlayer
from services.environments.word_problems.instructions import INSTRUCTIONS
from services.environments.word_problems.play.evaluation import problem_row
from services.environments.word_problems.play.game import ProblemGame, WorkedSolutions
from services.environments.word_problems.play.language import WordProblemLanguage
from services.environments.word_problems.play.settings import (
    GSM8K_TEST,
    PROBLEM_SETS,
    UNSEEN_WORDING,
    WordProblemEvaluation,
    WordProblemImitation,
    WordProblemSettings,
)
from services.environments.word_problems.play.starts import ProblemStarts, gsm8k_rows, made_start, problem_of, row_start
from services.environments.word_problems.problem import number_text
from services.environments.word_problems.rewards.mixture import Mixture
from services.environments.word_problems.rewards.settings import RewardSettings


def _of_samples(name: str, title: str, text: str) -> Measure:
    """A measure of an evaluation's samples: no single completion has it."""
    return Measure(name, name, title, text, "share", header=title, only_evaluated=True)


class WordProblems(World):
    """Made arithmetic problems, or GSM8K."""

    name = "word_problems"
    role_name = "variant"
    measures = (
        Measure("exact_match", "exact_match", "Exact match", "share of right answers", "share", phrase="{} right"),
        Measure("form", "form", "Form", "share of completions in the wanted form", "share", phrase="{} in form"),
        _of_samples("pass_at_1", "pass@1", "share of right samples"),
        _of_samples("pass_at_8", "pass@8", "share of problems of which one of 8 samples is right"),
        _of_samples("maj_at_8", "maj@8", "share of problems of which the vote of 8 samples is right"),
    )
    episode_facts = ("question", "family", "difficulty")
    group_keys = ("variant+question", "variant")
    has_opponents = False
    game_settings = WordProblemSettings
    evaluation_settings = WordProblemEvaluation
    imitation_settings = WordProblemImitation
    defaults = {"learner": {"returns": "episode"}}  # noqa: RUF012
    language = WordProblemLanguage()

    def __init__(self, settings: WordProblemSettings) -> None:
        """Take the section ``[game]``; the reward's functions are looked up when the first game is made."""
        super().__init__(settings)
        self._mixture: Mixture | None = None
        self._gsm8k = settings.gsm8k

    @property
    def roles(self) -> tuple[str, ...]:
        """The instruction variants that are trained."""
        variants: tuple[str, ...] = self.settings.variants
        return variants

    @property
    def repeated_answers(self) -> int:
        """Those to the questions before the last."""
        follow_ups: int = self.settings.follow_ups
        return follow_ups

    @property
    def reward_weights(self) -> Mapping[str, float]:
        """The weights of the components, normalised and scaled."""
        total = sum(self.settings.reward.values())
        return {name: self.settings.reward_scale * weight / total for name, weight in self.settings.reward.items()}

    def new_game(self, start: str, role: str, seed: int, game_id: str = "") -> ProblemGame:  # noqa: ARG002
        """The conversation about the problem of a start."""
        return ProblemGame(problem_of(start, self._gsm8k), role, self._reward(), self.settings.follow_ups)

    def _reward(self) -> Mixture:
        """The reward function. Raises RewardError if a component cannot be used."""
        if self._mixture is None:
            self._mixture = Mixture(RewardSettings(weights=self.settings.reward))
        return self._mixture

    def starts(self) -> ProblemStarts:
        """Problems of the training side."""
        return ProblemStarts(self.settings)

    def make_teacher(self, settings: Any, game: Game) -> Bot:
        """The worked solutions of the game's problems."""
        assert isinstance(game, ProblemGame)
        return WorkedSolutions(game, settings.answer_only)

    def teaching(self, settings: Any) -> str:  # noqa: ARG002
        """What a progress bar says."""
        return "writing worked solutions"

    def check_imitation(self, settings: Any) -> None:
        """Nothing to check: the only teacher is the worked solutions."""

    def as_evaluated(self, settings: Any) -> WordProblems:
        """Rows of GSM8K come from ``evaluation.gsm8k``."""
        world = WordProblems(self.settings.model_copy(update={"follow_ups": 0}))
        world._gsm8k = settings.gsm8k
        return world

    def check_evaluation(self, settings: Any) -> None:
        """Raise ValueError for an unknown problem set, or one without its file."""
        for key in ("against", "final_against"):
            for name in getattr(settings, key):
                if name not in PROBLEM_SETS:
                    known = ", ".join(PROBLEM_SETS)
                    raise ValueError(f"evaluation.{key}: no problem set is called {name!r}; there are {known}")
                if name == UNSEEN_WORDING and not self._untrained_variants:
                    raise ValueError(f"evaluation.{key}: game.variants trains all of them, and leaves none unseen")
                if name == GSM8K_TEST and settings.gsm8k is None:
                    raise ValueError(f"evaluation.{key}: the set gsm8k needs evaluation.gsm8k, a file of its test rows")

    def check_vocabulary(self, evaluation: Any) -> None:
        """Raise ValueError for rows of GSM8K, whose words are not those of made problems."""
        for key, file in (("game.gsm8k", self.settings.gsm8k), ("evaluation.gsm8k", evaluation.gsm8k)):
            if file is not None:
                raise ValueError(
                    f"{key}: the small policy knows only the words of made problems; set policy.path to a language "
                    "model, or leave the file out"
                )

    def check_files(self, evaluation: Any) -> None:
        """Read the rows of GSM8K, and look up the components of the reward."""
        for file in (self.settings.gsm8k, evaluation.gsm8k):
            if file is not None:
                gsm8k_rows(file)
        self._reward()

    @property
    def _untrained_variants(self) -> tuple[str, ...]:
        """The instruction variants that the policy has not seen."""
        return tuple(name for name in INSTRUCTIONS if name not in self.roles)

    def opposition(self, against: str) -> str:
        """``on held_out``"""
        return f"on {against}"

    def evaluation_facts(self, settings: Any) -> Mapping[str, str | int]:
        """The number of problems, and of samples of each."""
        return {"problems": settings.problems, "samples": settings.samples}

    def evaluation_roles(self, settings: Any, against: str) -> tuple[str, ...]:  # noqa: ARG002
        """The trained variants, or all others for ``unseen_wording``."""
        return self._untrained_variants if against == UNSEEN_WORDING else self.roles

    def evaluation_games(self, settings: Any, against: str, seed: int) -> list[EvaluationGame]:
        """Each problem once greedily and ``samples`` times sampled; the variants take turns."""
        roles = self.evaluation_roles(settings, against)
        cells = [(family, number) for family in self.settings.families for number in self.settings.difficulties]
        games = []
        rows: list[int] = []  # each once before any comes again
        if against == GSM8K_TEST:
            count = len(gsm8k_rows(settings.gsm8k))
            rows = random.Random(derive_seed(seed, "evaluation", GSM8K_TEST)).sample(range(count), count)
        for problem in range(settings.problems):
            own = derive_seed(seed, "evaluation", problem)
            if against == GSM8K_TEST:
                start = row_start(rows[problem % len(rows)])
            else:
                start = made_start("held_out", *cells[problem % len(cells)], own)
            role = roles[problem // len(cells) % len(roles)]
            for answer in range(settings.samples + 1):
                number = problem * (settings.samples + 1) + answer
                temperature = None if answer else 0.0
                games.append(EvaluationGame(role, against, number, start, derive_seed(own, answer), temperature))
        return games

    def summarize(self, settings: Any, results: Sequence[EvaluationResult]) -> dict[str, Any]:
        """Exact match, pass@k, maj@k and form over all problems, and by variant."""
        played: dict[str, list[EvaluationResult]] = {}
        for result in results:
            played.setdefault(result.role, []).append(result)
        samples = settings.samples
        by_role = {role: problem_row({role: own}, samples) for role, own in played.items()}
        return {**problem_row(played, samples), "by_variant": by_role}

    def saved_game(
        self,
        game: Game,
        players: Mapping[str, SeatPlayer] | None,
        seed: int,
        commit: str,
        package_version: str,
    ) -> str:
        """The conversation with its true answers."""
        assert isinstance(game, ProblemGame)
        asked = [
            {"question": problem.question.text, "reply": reply, "answer": number_text(problem.answer)}
            for problem, reply in zip(game.problems, game.replies, strict=True)
        ]
        player = players[game.role].player if players else None
        document = {
            "instruction": INSTRUCTIONS[game.role],
            "questions": asked,
            "player": player,
            "seed": seed,
            "commit": commit,
            "package_version": package_version,
        }
        return json.dumps(document)


WORLD = WordProblems
