"""A language model as a player: what a seat sees -> prompt -> completion -> actions, recorded as a turn."""

from __future__ import annotations

from collections.abc import Mapping
from copy import copy
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
from transformers import PreTrainedTokenizerBase

from grpo_core.errors import CheckpointError, one_line
from grpo_core.settings import PolicySettings
from grpo_core.types import Turn
from opponents.prompts.chat_template import ChatTemplate
from opponents.prompts.policy_prompt import ChatPrompt, NotationPrompt, PolicyPrompt, PromptView
from services.environments.language import Language
from services.environments.playing import TRUNCATED, Decision, Defect, Slot, View
from services.inference.engine import LEARNER, Engine, Generation, GenerationRequest
from services.inference.stop_text import StopText
from services.inference.thoughts import ThoughtFormat, thought_format
from services.inference.token_masks import SheetConstraint, SlotConstraint
from services.inference.word_tokenizer import word_encoder
from services.settings import InferenceSettings


@dataclass(frozen=True, slots=True)
class _SlotTokens:
    """A slot in tokens: its mask, and the lines that its token sequences spell."""

    constraint: SlotConstraint
    lines: Mapping[tuple[int, ...], str]  # token sequence -> line
    lengths: tuple[int, ...]  # lengths of these sequences, ascending


class TokenizedLanguage:
    """A world's prompts and answers in the tokens of one tokenizer, with thoughts before answers where wanted.

    Repeated lines and slots are tokenised once.
    """

    def __init__(
        self,
        language: Language,
        tokenizer: PreTrainedTokenizerBase,
        policy: PolicySettings | None = None,
        inference: InferenceSettings | None = None,
    ) -> None:
        """Take a run's settings of prompts and thoughts; by default prompts are in compact notation.

        Raises CheckpointError if the tokenizer cannot write answers, or has no usable chat template where one is
        wanted.
        """
        self._tokenizer = tokenizer
        if tokenizer.eos_token_id is None:
            raise CheckpointError("the tokenizer has no end-of-sequence token; answers end with it")
        self.end_id = int(tokenizer.eos_token_id)
        fast = word_encoder(tokenizer)
        self._encode = fast or (lambda text: tuple(tokenizer.encode(text)))
        self._encode_bare = fast or (lambda text: tuple(tokenizer.encode(text, add_special_tokens=False)))
        while (optional := " ".join(language.optional_words())) and tokenizer.unk_token_id in self._encode_bare(
            optional
        ):
            language = language.without_optional_words()
        self.language = language
        try:
            written = self._encode_bare(f"{language.example}\n")
        except Exception as error:  # tokenizers raises nothing more specific, e.g. for words without an unknown token
            raise CheckpointError(f"the tokenizer cannot write {language.example!r}: {one_line(error, 200)}") from error
        if not written:
            raise CheckpointError(
                f"the tokenizer writes {language.example!r} as nothing; take the one the model was trained with"
            )
        # Legal actions recur from game to game; the bound limits the memory of long runs.
        self._slot = lru_cache(maxsize=1 << 16)(self._slot_uncached)
        self._line = lru_cache(maxsize=1 << 16)(lambda line: self._encode_bare(line + "\n"))
        self._claims: dict[str, int] = {}  # their numbers in masks
        self.thought: ThoughtFormat | None = None  # written before an answer with a choice
        self.stop = None if language.stop is None else StopText(tokenizer, language.stop)
        self.prompts: PolicyPrompt = NotationPrompt(language, self._encode)
        self._coordinated = inference is not None and inference.decoding == "coordinated"
        self._notes = policy is not None and policy.notes
        if self._notes and tokenizer.unk_token_id in self._encode_bare(" ".join(language.note_words())):
            raise CheckpointError("the tokenizer lacks words of notes: set policy.notes = false, or take another model")
        self._is_chat = policy is not None and policy.prompt == "chat"
        if policy is not None and self._is_chat:
            self._read_as_chat(policy, inference or InferenceSettings())

    def prompt(self, view: View, seat: str) -> tuple[int, ...]:
        """Prompt ids; EngineError if the prompt cannot be made to fit the context."""
        return self.prompts.ids(view, seat)

    def line_length(self, line: str) -> int:
        """The tokens of one line of an answer, with its end."""
        return len(self._line(line))

    def slots(self, view: View, seat: str, *, legal: bool = False) -> tuple[Slot, ...] | None:
        """What may be written, as the world says, with notes for a policy that asks for them; None: any text.

        Under coordinated decoding only what that admits; with ``legal`` whatever is legal all the same.
        """
        slots = self.language.slots(view, seat)
        if slots and self._is_chat and self.language.is_free(view, seat):
            return None
        if slots and self._coordinated and not legal:
            slots = self.language.coordinated(slots)
        if not self._notes or not slots:
            return slots
        notes = self.language.notes(view, seat)
        return tuple(replace(slot, note=note) for slot, note in zip(slots, notes, strict=True))

    def note_length(self, note: str) -> int:
        """The tokens of a note."""
        return len(self._note(note))

    def constraint(self, slots: tuple[Slot, ...]) -> SheetConstraint:
        """The mask that admits one alternative of each slot, after its note."""
        return SheetConstraint(slots=tuple(map(self._constraint, slots)), end_id=self.end_id)

    def actions(self, slots: tuple[Slot, ...], completion_ids: list[int]) -> tuple[str, ...]:
        """Read the actions of a completion under ``constraint(slots)``; ValueError if it does not fit the mask."""
        actions: list[str] = []
        start = 0
        for slot in slots:
            tokens = self._slot(slot.alternatives, slot.claims)
            start += len(self._note(slot.note))
            spelled = (tuple(completion_ids[start : start + length]) for length in tokens.lengths)
            found = next((ids for ids in spelled if ids in tokens.lines), None)
            if found is None:
                raise ValueError(f"completion leaves its mask at token {start}: {completion_ids}")
            actions.append(tokens.lines[found])
            start += len(found)
        return tuple(actions)

    def text_ids(self, text: str) -> tuple[int, ...]:
        """The tokens of a free text; without a stop text of the world, the end of the text follows."""
        ids = self._encode_bare(text)
        return ids if self.stop is not None else (*ids, self.end_id)

    def text(self, completion_ids: list[int]) -> str:
        """The text of a free completion."""
        return str(self._tokenizer.decode(completion_ids, skip_special_tokens=True))

    def _read_as_chat(self, policy: PolicySettings, inference: InferenceSettings) -> None:
        thinking = inference.thinking_tokens > 0
        template = ChatTemplate(self._tokenizer, thinking=thinking)
        room = policy.context_length - inference.max_completion_length
        if thinking:
            ending = template.text([{"role": "user", "content": "?"}])
            self.thought = thought_format(
                self._tokenizer, ending, inference.thinking_tokens, self.language.answer_title
            )
            room -= self.thought.longest
        self.prompts = ChatPrompt(self.language, template, room, thinking=thinking)

    def _constraint(self, slot: Slot) -> SlotConstraint:
        constraint = self._slot(slot.alternatives, slot.claims).constraint
        return replace(constraint, note=self._note(slot.note)) if slot.note else constraint

    def _note(self, note: str) -> tuple[int, ...]:
        return self._encode_bare(note) if note else ()

    def _slot_uncached(self, lines: tuple[str, ...], named_claims: tuple[str | None, ...]) -> _SlotTokens:
        alternatives = tuple(self._line(line) for line in lines)
        # One numbering for all slots, whose claims exclude one another by name.
        numbered = self._claims
        claims = tuple(None if claim is None else numbered.setdefault(claim, len(numbered)) for claim in named_claims)
        constraint = SlotConstraint(alternatives=alternatives, claims=claims)
        spelled = dict(zip(alternatives, lines, strict=True))
        return _SlotTokens(constraint, spelled, tuple(sorted(set(map(len, spelled)))))


class LLMPolicy:
    """Plays any seat with completions from an engine; keeps no state of a game."""

    def __init__(
        self,
        engine: Engine,
        tokens: TokenizedLanguage,
        *,
        policy: str = LEARNER,
        decoding: str = "constrained",
        temperature: float = 1.0,
        max_completion_length: int = 224,
    ) -> None:
        self.engine = engine
        self.tokens = tokens
        self._language = tokens.language
        self.policy = policy  # its name in the engine
        self.constrained = decoding != "free"  # whether a mask admits legal orders alone
        self.temperature = temperature  # of sampling; 0 is greedy
        self._max_completion_length = max_completion_length

    def at(self, temperature: float) -> LLMPolicy:
        """The same policy at another temperature; 0 is greedy."""
        other = copy(self)
        other.temperature = temperature
        return other

    def read(self, view: View, seat: str) -> PromptView:
        """The prompt of ``act``, and below it the notes, a line each."""
        prompts = self.tokens.prompts
        text, sizes = prompts.text(view, seat), prompts.section_tokens(view, seat)
        notes = [slot.note for slot in self.tokens.slots(view, seat) or () if slot.note] if self.constrained else []
        if notes:
            text = "\n".join([text, *notes])
            sizes["notes"] = sum(map(self.tokens.note_length, notes))
        return PromptView(text, sizes, "tokens")

    async def thought(self, view: View, seat: str, seed: int) -> tuple[int, ...]:
        """The tokens that the policy writes between a prompt and an order sheet; () without thoughts or a choice."""
        slots = self.tokens.slots(view, seat)
        if self.tokens.thought is None or not slots:
            return ()
        generation = await self.engine.generate(self._request(self.tokens.prompt(view, seat), slots, seed))
        return tuple(generation.completion_ids[: generation.answer_start].tolist())

    async def act(self, view: View, seat: str, seed: int) -> Decision:
        """Generate one answer; EngineError if the engine cannot (prompt too long, engine closed)."""
        slots = self.tokens.slots(view, seat)
        if slots == ():
            return Decision(())  # nothing to write, as in a negotiation whose words it lacks
        if not self.constrained:
            slots = None
        prompt_ids = self.tokens.prompt(view, seat)
        generation = await self.engine.generate(self._request(prompt_ids, slots, seed))
        start = generation.answer_start
        completion: list[int] = generation.completion_ids[start:].tolist()
        if slots is not None:
            actions = self.tokens.actions(slots, completion)
            found: tuple[Defect, ...] = ()
            defects: tuple[str, ...] = ()
        else:
            # Without the words around a thought, which were forced.
            thought: list[int] = generation.completion_ids[:start][generation.sampled_mask[:start]].tolist()
            answer = self._language.parse(self.tokens.text(completion), view, seat, self.tokens.text(thought))
            actions, found = answer.actions, answer.defects
            defects = tuple(f"{defect.reason}: {defect.text}" for defect in answer.defects)
            if not generation.finished:
                defects = (*defects, TRUNCATED)
        temperature = self.temperature or 1.0
        turn = make_turn(prompt_ids, generation, "", temperature=temperature, defects=defects)
        return Decision(actions, turn, found)

    def _request(self, prompt_ids: tuple[int, ...], slots: tuple[Slot, ...] | None, seed: int) -> GenerationRequest:
        return GenerationRequest(
            prompt_ids=prompt_ids,
            constraint=None if slots is None else self.tokens.constraint(slots),
            seed=seed,
            temperature=self.temperature,
            max_completion_length=self._max_completion_length,
            policy=self.policy,
            thought=self.tokens.thought,
            stop=self.tokens.stop,
        )


def make_turn(
    prompt_ids: tuple[int, ...],
    generation: Generation,
    phase: str,
    *,
    temperature: float = 1.0,
    defects: tuple[str, ...] = (),
) -> Turn:
    """The turn of one generated answer; who plays the game sets its phase, facts and reward."""
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
