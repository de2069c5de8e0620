"""A language model as a player: position -> prompt -> order sheet -> orders, recorded as a turn."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from transformers import PreTrainedTokenizerBase

from grpo_core.errors import CheckpointError, one_line
from grpo_core.types import Turn
from opponents.players.policy import Decision
from services.environments.diplomacy.notation import render
from services.environments.diplomacy.orders import OrderSlot, parse, sheet
from services.environments.diplomacy.position import Position
from services.inference.engine import LEARNER, Engine, Generation, GenerationRequest
from services.inference.token_masks import SheetConstraint, SlotConstraint
from services.inference.word_tokenizer import word_encoder

TRUNCATED = "truncated"  # the defect of a completion that was cut off


@dataclass(frozen=True, slots=True)
class _SlotTokens:
    """A slot in tokens: its mask, and the orders that its token sequences spell."""

    constraint: SlotConstraint
    orders: Mapping[tuple[int, ...], str]  # token sequence -> order
    lengths: tuple[int, ...]  # lengths of these sequences, ascending


class OrderTokens:
    """Order sheets in the tokens of one tokenizer; repeated orders and slots are tokenised once."""

    def __init__(self, tokenizer: PreTrainedTokenizerBase) -> None:
        """Raises CheckpointError if the tokenizer cannot write orders."""
        self._tokenizer = tokenizer
        if tokenizer.eos_token_id is None:
            raise CheckpointError("the tokenizer has no end-of-sequence token; order sheets end with it")
        self.end_id = int(tokenizer.eos_token_id)
        fast = word_encoder(tokenizer)
        self._encode = fast or (lambda text: tuple(tokenizer.encode(text)))
        self._encode_bare = fast or (lambda text: tuple(tokenizer.encode(text, add_special_tokens=False)))
        try:
            written = self._encode_bare("A PAR - BUR\n")
        except Exception as error:  # tokenizers raises nothing more specific, e.g. for words without an unknown token
            raise CheckpointError(f"the tokenizer cannot write an order: {one_line(error, 200)}") from error
        if not written:
            raise CheckpointError("the tokenizer writes an order as nothing; take the one the model was trained with")
        # Legal orders of a unit recur from game to game; the bound limits the memory of long runs.
        self._slot = lru_cache(maxsize=1 << 16)(self._slot_uncached)
        self._order = lru_cache(maxsize=1 << 16)(lambda order: self._encode_bare(order + "\n"))

    def prompt(self, text: str) -> tuple[int, ...]:
        """Prompt ids, special tokens as the tokenizer adds them."""
        return self._encode(text)

    def constraint(self, slots: tuple[OrderSlot, ...]) -> SheetConstraint:
        """The mask that admits only these order sheets."""
        return SheetConstraint(slots=tuple(self._slot(slot).constraint for slot in slots), end_id=self.end_id)

    def orders(self, slots: tuple[OrderSlot, ...], completion_ids: list[int]) -> tuple[str, ...]:
        """Read the orders of a completion under ``constraint(slots)``; ValueError if it does not fit the mask."""
        orders: list[str] = []
        start = 0
        for slot in slots:
            tokens = self._slot(slot)
            spelled = (tuple(completion_ids[start : start + length]) for length in tokens.lengths)
            found = next((ids for ids in spelled if ids in tokens.orders), None)
            if found is None:
                raise ValueError(f"completion leaves its mask at token {start}: {completion_ids}")
            orders.append(tokens.orders[found])
            start += len(found)
        return tuple(orders)

    def text(self, completion_ids: list[int]) -> str:
        """The text of a free completion."""
        return str(self._tokenizer.decode(completion_ids, skip_special_tokens=True))

    def _slot_uncached(self, slot: OrderSlot) -> _SlotTokens:
        claims = {claim: number for number, claim in enumerate(sorted({c for c in slot.claims if c is not None}))}
        alternatives = tuple(self._order(order) for order in slot.alternatives)
        # Claims are numbered within the slot. Slots of one sheet agree, because the sheets of builds and disbands, the
        # only ones with claims, repeat the same alternatives in every slot.
        constraint = SlotConstraint(
            alternatives=alternatives, claims=tuple(None if claim is None else claims[claim] for claim in slot.claims)
        )
        spelled = dict(zip(alternatives, slot.alternatives, strict=True))
        return _SlotTokens(constraint, spelled, tuple(sorted(set(map(len, spelled)))))


class LLMPolicy:
    """Plays any power with completions from an engine; keeps no state of a game."""

    def __init__(
        self,
        engine: Engine,
        tokens: OrderTokens,
        *,
        policy: str = LEARNER,
        decoding: str = "constrained",
        temperature: float = 1.0,
        max_completion_length: int = 224,
    ) -> None:
        self._engine = engine
        self._tokens = tokens
        self._policy = policy
        self._constrained = decoding == "constrained"
        self._temperature = temperature
        self._max_completion_length = max_completion_length

    async def act(self, position: Position, power: str, seed: int) -> Decision:
        """Generate one order sheet; EngineError if the engine cannot (prompt too long, engine closed)."""
        slots = sheet(position, power)
        prompt_ids = self._tokens.prompt(render(position, power))
        generation = await self._engine.generate(
            GenerationRequest(
                prompt_ids=prompt_ids,
                constraint=self._tokens.constraint(slots) if self._constrained else None,
                seed=seed,
                temperature=self._temperature,
                max_completion_length=self._max_completion_length,
                policy=self._policy,
            )
        )
        completion: list[int] = generation.completion_ids.tolist()
        if self._constrained:
            orders = self._tokens.orders(slots, completion)
            defects: tuple[str, ...] = ()
        else:
            parsed = parse(self._tokens.text(completion), position, power, repair=True)
            orders = parsed.orders
            defects = tuple(f"{defect.reason}: {defect.order}" for defect in parsed.defects)
            if not generation.finished:
                defects = (*defects, TRUNCATED)
        temperature = self._temperature or 1.0
        turn = make_turn(prompt_ids, generation, position.phase, temperature=temperature, defects=defects)
        return Decision(orders, turn)


def make_turn(
    prompt_ids: tuple[int, ...],
    generation: Generation,
    phase: str,
    *,
    temperature: float = 1.0,
    defects: tuple[str, ...] = (),
) -> Turn:
    """The turn of one generated order sheet."""
    return Turn(
        prompt_ids=np.asarray(prompt_ids, dtype=np.int32),
        completion_ids=generation.completion_ids,
        logprobs=generation.logprobs,
        trained_mask=generation.sampled_mask,
        admissible_ids=generation.admissible_ids,
        admissible_offsets=generation.admissible_offsets,
        policy_version=generation.policy_version,
        temperature=temperature,
        phase=phase,
        defects=defects,
    )
