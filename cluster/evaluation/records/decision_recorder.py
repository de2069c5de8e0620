"""Records what the language models of one game read, might have written and chose."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from cluster.evaluation.records.prompt_report import Reader
from grpo_core.errors import EntenteError, one_line
from services.environments.diplomacy.position import Position
from services.environments.diplomacy.press.view import writes_press
from services.environments.playing import Decision, Policy
from services.reports.game_viewer.decisions import (
    SCHEMA,
    GameDecisions,
    Lines,
    RecordedDecision,
    UnitChoice,
    unit_choice,
)

if TYPE_CHECKING:
    from opponents.players.llm_policy import LLMPolicy
    from opponents.prompts.policy_prompt import PromptView

# A record must not end a game whose episode counts without it: torch raises a RuntimeError where memory ends.
_NO_CHOICES = (EntenteError, ValueError, KeyError, RuntimeError, MemoryError)
_LOGPROB_TOLERANCE = 0.05  # nats over a sheet: more than rounding explains, less than one update of the weights changes


class DecisionRecorder:
    """Collects the decisions of one game, from watched players or one by one."""

    def __init__(self, made: str = "played") -> None:
        """``made``: "played", or the policy that is asked after the game."""
        self._made = made
        self._lines = Lines()
        self._decisions: list[RecordedDecision] = []

    def watched(self, name: str, player: Policy) -> Policy:
        """Return a player that acts as this one does and has its decisions recorded; a bot is returned as it is."""
        return _Recorded(name, player, self) if isinstance(player, Reader) else player

    async def record(
        self, name: str, player: Policy, position: Position, power: str, decision: Decision, *, played: bool
    ) -> None:
        """Record a decision that ``player`` made (``played``), or would think of now.

        Bots are not recorded, nor are letters, which are among the game's messages.
        """
        if not isinstance(player, Reader) or writes_press(position):
            return
        policy: LLMPolicy | None = None
        choices: tuple[UnitChoice, ...] = ()
        prompt: tuple[int, ...] = ()
        note = thought = ""
        try:
            policy = await policy_of(player, power)
            choices, note, thought = await _choices(policy, position, power, decision, played=played)
            prompt = self._lines.add(player.read(position, power).text)
        except _NO_CHOICES as error:  # also a prompt that does not fit the context of a policy that is asked later
            note = one_line(error, 300)
        self._decisions.append(
            RecordedDecision(
                phase=position.phase,
                power=power,
                player=one_line(name, 200),
                prompt=prompt,
                thought=thought,
                choices=choices,
                temperature=(policy.temperature or 1.0) if choices and policy is not None else None,
                note=note,
            )
        )

    def recorded(self, game_id: str) -> GameDecisions:
        """All decisions so far, in the order of phases, the powers of a phase by name."""
        phases = {phase: number for number, phase in enumerate(dict.fromkeys(each.phase for each in self._decisions))}
        ordered = sorted(self._decisions, key=lambda each: (phases[each.phase], each.power))
        return GameDecisions(SCHEMA, one_line(game_id, 200), self._made, self._lines.all(), tuple(ordered))


async def policy_of(player: Policy, power: str) -> LLMPolicy | None:
    """The language policy that plays ``power``, whose probabilities can be asked for; None for other players."""
    from opponents.players.llm_policy import LLMPolicy

    if isinstance(player, LLMPolicy):
        return player
    specialist = getattr(player, "specialist", None)
    found = None if specialist is None else await specialist(power)
    return found if isinstance(found, LLMPolicy) else None


async def _choices(
    policy: LLMPolicy | None, position: Position, power: str, decision: Decision, *, played: bool
) -> tuple[tuple[UnitChoice, ...], str, str]:
    """The choices along a decision's orders, or why there are none; and the thought before them."""
    if policy is None:
        return (), "This player does not tell probabilities.", ""
    from opponents.insight.choices import order_choices
    from opponents.insight.question import thought_of

    try:
        written = thought_of(policy, decision) if policy.constrained else ()
        found = await order_choices(
            policy, position, power, decision.actions, thought=written if played and policy.constrained else None
        )
    except _NO_CHOICES as error:
        return (), one_line(error, 300), ""
    thought = policy.tokens.text(list(written)).strip()
    choices = tuple(unit_choice(each.orders, each.probabilities, each.entropy, each.chosen) for each in found)
    note = ""
    if played and policy.constrained and _replaced(decision, [each.chosen_probability for each in found]):
        note = "The policy took new weights while it decided: these are the probabilities under the new ones."
    return choices, note, thought


def _replaced(decision: Decision, probabilities: Sequence[float]) -> bool:
    """Whether the sheet had another probability when it was written."""
    import numpy as np

    turn = decision.turn
    if turn is None or not probabilities:
        return False
    of_sheet = np.diff(turn.admissible_offsets) > 0  # a thought's tokens have no admissible ids
    then = float(turn.logprobs[turn.trained_mask][of_sheet].sum())
    now = float(np.log(np.maximum(probabilities, 1e-300)).sum())
    return abs(then - now) > _LOGPROB_TOLERANCE


class _Recorded:
    """A player whose decisions are recorded."""

    def __init__(self, name: str, player: Policy, recorder: DecisionRecorder) -> None:
        self._name = name
        self._player = player
        self._recorder = recorder

    def read(self, position: Position, power: str) -> PromptView:
        assert isinstance(self._player, Reader)
        return self._player.read(position, power)

    async def act(self, position: Position, power: str, seed: int) -> Decision:
        decision = await self._player.act(position, power, seed)
        await self._recorder.record(self._name, self._player, position, power, decision, played=True)
        return decision
