"""One question to one policy, perhaps with follow-ups about its answer."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from grpo_core.seeds import derive_seed
from grpo_core.types import KeyValue
from services.environments.playing import Bot, Game, Result, Step
from services.environments.word_problems.answers import final_answer
from services.environments.word_problems.families.registry import follow_up
from services.environments.word_problems.problem import Question, WordProblem, answer_text, completion_text, number_text
from services.environments.word_problems.rewards.components import COMPONENTS
from services.environments.word_problems.rewards.mixture import Mixture


@dataclass(frozen=True, slots=True)
class Conversation:
    """What the policy sees: questions and its own replies, no solution and no answer."""

    questions: tuple[Question, ...]
    replies: tuple[str, ...] = ()


class ProblemGame(Game):
    """One conversation in one role, an instruction variant."""

    def __init__(self, problem: WordProblem, role: str, mixture: Mixture, follow_ups: int = 0) -> None:
        """Ask the problem, then ``follow_ups`` questions about the answer, the same in all games with the problem."""
        self.role = role
        self.problems = [problem]
        for number in range(follow_ups):
            self.problems.append(follow_up(self.problems[-1], derive_seed(problem.seed, "follow up", number)))
        self.replies: list[str] = []
        self._mixture = mixture
        self._sums: dict[str, float] = {}  # over the questions; their means are exact

    @property
    def is_done(self) -> bool:
        """Whether all questions were answered."""
        return len(self.replies) == len(self.problems)

    @property
    def phase(self) -> str:
        """``question 1``"""
        return f"question {len(self.replies) + 1}"

    @property
    def problem(self) -> WordProblem:
        """The problem that is asked now; IndexError once all were answered."""
        return self.problems[len(self.replies)]

    def to_act(self) -> tuple[str]:
        """The only seat."""
        return (self.role,)

    def view(self, seat: str) -> Conversation:  # noqa: ARG002
        """The questions so far and the replies to all but the last."""
        asked = self.problems[: len(self.replies) + 1]
        return Conversation(tuple(problem.question for problem in asked), tuple(self.replies))

    def start_facts(self, seat: str) -> Mapping[str, KeyValue]:  # noqa: ARG002
        """The question, by a digest of its text, its family and its difficulty."""
        first = self.problems[0]
        digest = hashlib.blake2b(first.question.text.encode(), digest_size=8).hexdigest()
        return {"question": digest, "family": first.family, "difficulty": first.difficulty}

    def step(self, actions: Mapping[str, Sequence[str]]) -> Step:
        """Take a completion; an empty one if there is none."""
        ((seat, written),) = actions.items()
        completion = written[0] if written else ""
        problem = self.problem
        values = self._mixture(completion, problem).components
        always = {
            name: values[name] if name in values else COMPONENTS[name](completion, problem)
            for name in ("exact_number", "form")
        }
        measured = {
            **values,
            "exact_match": always["exact_number"],
            "form": always["form"],
            "characters": float(len(completion)),
        }
        for name, value in measured.items():
            self._sums[name] = self._sums.get(name, 0.0) + value
        self.replies.append(completion)
        return Step({seat: {name: value / len(self.problems) for name, value in values.items()}})

    def result(self) -> Result:
        """The mean of each component over the questions, and the last answer."""
        outcome = {name: value / len(self.problems) for name, value in self._sums.items()}
        answer = final_answer(self.replies[-1])
        return Result({self.role: outcome}, notes={self.role: "" if answer is None else number_text(answer)})


class WorkedSolutions(Bot):
    """The teacher: it knows the game, and writes the solution of the problem that is asked."""

    def __init__(self, game: ProblemGame, answer_only: float = 0.0) -> None:
        """Leave the working out with the chance ``answer_only``, by the seed of the decision."""
        self._game = game
        self._answer_only = answer_only

    def actions(self, view: Conversation, seat: str, seed: int) -> tuple[str, ...]:  # noqa: ARG002
        """The completion to imitate."""
        bare = derive_seed(seed, "answer only") < self._answer_only * 2**63
        return ((answer_text if bare else completion_text)(self._game.problem),)
