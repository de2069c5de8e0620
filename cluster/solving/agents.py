"""A policy under several instruction variants, each an agent: what it writes, and what represents its completions."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import torch
from torch import Tensor
from torch.func import functional_call
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from cluster.errors import RunError
from cluster.solving.policy_folder import PolicyFolder
from grpo_core.checkpoints.folders import MANIFEST
from grpo_core.checkpoints.store import load_checkpoint
from grpo_core.ensembles.joint_writing import write_together
from grpo_core.errors import one_line
from grpo_core.forward.hidden_states import has_plain_blocks
from grpo_core.losses.representation_alignment import masked_mean
from grpo_core.models.lora import folder_payload, merged
from grpo_core.models.named_tensors import named_tensors
from grpo_core.models.pretrained import ADAPTER, load_model, saved_specialists
from grpo_core.settings import PolicySettings
from opponents.players.llm_policy import TokenizedLanguage
from services.environments.word_problems.answers import final_answer
from services.environments.word_problems.play.game import Conversation
from services.environments.word_problems.problem import Question
from services.inference.engine import LEARNER, EngineError, GenerationRequest
from services.inference.sequence import FreeState, ModelLimits
from services.inference.torch_backend.engine import TorchEngine
from services.inference.word_tokenizer import SPECIAL_TOKENS, word_encoder


@dataclass(frozen=True, slots=True)
class Completion:
    """What an agent wrote, or all agents together."""

    ids: tuple[int, ...]  # (T,)
    text: str  # without a thought that the chat template asked for
    answer: Fraction | None  # the final answer in it
    finished: bool  # False: cut off at the limit of tokens
    logprobs: tuple[float, ...] | None = None  # (T,) under the mean of all agents, if they wrote it together


@dataclass(frozen=True, slots=True, eq=False)
class Reading:
    """What the policy computes when it reads one of its completions: H is the hidden size."""

    state: Tensor  # (H,) mean of the last hidden states over the completion's own tokens
    logprobs: Tensor  # (T,) of the completion's tokens, at temperature 1


class Agents:
    """A policy under its instruction variants. Its methods must be called in one event loop, until ``close``."""

    def __init__(self, found: PolicyFolder) -> None:
        """Load the policy.

        Raises CheckpointError if it is not usable, RunError if it has specialists, but none for a variant.
        """
        folder = found.folder
        if (folder / MANIFEST).exists():
            load_checkpoint(folder)  # compares every file with its checksum
        specialists = saved_specialists(folder)
        if missing := [name for name in found.variants if specialists and name not in specialists]:
            raise RunError(
                f"{folder} has specialists, but none for {', '.join(missing)}; it has {', '.join(specialists)}"
            )
        model, tokenizer = load_model(folder, shared_base=bool(specialists))
        settings = found.policy
        if settings is None:
            settings = PolicySettings(
                prompt="chat" if tokenizer.chat_template else "notation",
                context_length=max(model.config.max_position_embeddings, 128),
            )
        self.variants = found.variants
        self.rows = found.inference.max_concurrent_decisions  # texts that are written at the same time
        self._tokens = TokenizedLanguage(found.world.language, tokenizer, settings, found.inference)
        self._special = _special_texts(tokenizer)
        self._unknown_word = _unknown_word(tokenizer, found.world.language.word_pattern)
        self._longest = found.inference.max_completion_length
        self._model = _reading_copy(model, found, shared_base=bool(specialists))
        self._limits = ModelLimits.of(
            int(model.get_output_embeddings().weight.shape[0]),
            (model.config.eos_token_id, getattr(model.generation_config, "eos_token_id", None)),
            model.config.max_position_embeddings,
        )
        self._adapters: dict[str, bytes] = {}
        self._weights: dict[str, Mapping[str, Tensor]] = {name: {} for name in self.variants}
        if specialists:
            self._adapters = {name: folder_payload(folder / ADAPTER / name) for name in self.variants}
            base = named_tensors(self._model)
            self._weights = {name: merged(base, payload) for name, payload in self._adapters.items()}
        self._engine = TorchEngine(model, max_concurrent_decisions=self.rows)

    def check(self, question: Question) -> None:
        """Raise RunError for a question that the policy's tokenizer cannot read."""
        for text in self._special:
            if text in question.text:
                raise RunError(f"the question holds {one_line(repr(text), 40)}, which is no text for this policy")
        if (word := self._unknown_word(question.text)) is not None:
            raise RunError(f"the policy does not know the word {one_line(repr(word), 80)}")

    async def load_specialists(self) -> None:
        """Give the engine the adapters of the variants, before the first ``write``; nothing for one policy for all."""
        for name, payload in self._adapters.items():
            await self._engine.update_weights(payload, 0, policy=f"{LEARNER}/{name}")

    async def write(
        self, question: Question, variant: str, seeds: Sequence[int], temperature: float
    ) -> list[Completion]:
        """Return a completion for each seed; temperature 0 is greedy. Raises EngineError if the prompt is too long."""
        prompt = self._prompt(question, variant)
        requests = [
            GenerationRequest(
                prompt_ids=prompt,
                constraint=None,
                seed=seed,
                temperature=temperature,
                max_completion_length=self._longest,
                policy=f"{LEARNER}/{variant}" if self._adapters else LEARNER,
                thought=self._tokens.thought,
                stop=self._tokens.stop,
            )
            for seed in seeds
        ]
        found = await asyncio.gather(*map(self._engine.generate, requests))
        return [
            self._completion(each.completion_ids.tolist(), each.finished, answer_start=each.answer_start)
            for each in found
        ]

    def write_together(self, question: Question) -> Completion:
        """Return the completion whose every token is the likeliest under the mean of all agents' distributions.

        Raises RunError for a policy that writes thoughts, whose ends the agents would reach at different tokens,
        EngineError if a prompt is too long.
        """
        if self._tokens.thought is not None:
            raise RunError("--agents average needs a policy without separate thoughts (inference.thinking_tokens = 0)")
        prompts = [self._prompt(question, variant) for variant in self.variants]
        room = min(self._longest, self._limits.context - max(map(len, prompts)))
        if room < 1:
            raise EngineError(f"the prompts leave no room in a context of {self._limits.context}")
        state = FreeState(self._limits, room, self._tokens.stop)

        def advance(token: int) -> bool:
            state.advance(token)
            return state.finished

        agents = [
            _CachedAgent(self._model, self._weights[variant], prompt)
            for variant, prompt in zip(self.variants, prompts, strict=True)
        ]
        try:
            written = write_together(agents, advance)
        except FloatingPointError as error:
            raise EngineError(str(error)) from error
        return self._completion(written.ids, state.ended, logprobs=written.logprobs)

    def read(self, question: Question, variant: str, completion_ids: Sequence[int]) -> Reading:
        """Read a completion of at least one token after the agent's own prompt."""
        prompt, length = self._prompt(question, variant), len(completion_ids)
        ids = torch.tensor([[*prompt, *completion_ids]], device=self._model.device)
        inputs = {"input_ids": ids, "use_cache": False, "output_hidden_states": True, "logits_to_keep": length + 1}
        with torch.inference_mode():
            output: Any = functional_call(self._model, dict(self._weights[variant]), (), inputs)
            own = torch.arange(ids.shape[1], device=ids.device) >= len(prompt)
            state = masked_mean(output.hidden_states[-1], own[None])[0]
            logprobs = output.logits[0, :-1].float().log_softmax(1)
            return Reading(state, logprobs.gather(1, ids[0, len(prompt) :, None])[:, 0])

    def perplexity_of(self, question: Question, variant: str, text: str) -> float | None:
        """The perplexity of a text as a completion; None where the tokenizer cannot write it or it does not fit."""
        if self._unknown_word(text) is not None:
            return None
        ids = self._tokens.text_ids(text)
        if len(self._prompt(question, variant)) + len(ids) > self._limits.context:
            return None
        return perplexity(self.read(question, variant, ids).logprobs)

    async def close(self) -> None:
        """Free the engine."""
        await self._engine.close()

    def _prompt(self, question: Question, variant: str) -> tuple[int, ...]:
        return self._tokens.prompt(Conversation((question,)), variant)

    def _completion(
        self,
        ids: Sequence[int],
        finished: bool,
        *,
        answer_start: int = 0,
        logprobs: tuple[float, ...] | None = None,
    ) -> Completion:
        text = self._tokens.text(list(ids[answer_start:]))
        return Completion(tuple(ids), text, final_answer(text), finished, logprobs)


def perplexity(logprobs: Tensor | Sequence[float]) -> float:
    """exp of the mean negative log-probability of at least one token: 1 for a certain text, V for a uniform guess."""
    return float(torch.as_tensor(logprobs, dtype=torch.float64).mean().neg().exp())


class _CachedAgent:
    """An agent's next-token logits; keys and values of what it has read are kept."""

    def __init__(self, model: PreTrainedModel, weights: Mapping[str, Tensor], prompt: Sequence[int]) -> None:
        self._model = model
        self._weights = dict(weights)
        self._prompt = tuple(prompt)
        self._read = 0
        self._cache: Any = None

    def __call__(self, written: Sequence[int]) -> Tensor:
        """The logits (V,) after the prompt and ``written``, which continues what was given before."""
        ids = torch.tensor([[*self._prompt, *written][self._read :]], device=self._model.device)
        inputs = {"input_ids": ids, "past_key_values": self._cache, "use_cache": True, "logits_to_keep": 1}
        output: Any = functional_call(self._model, self._weights, (), inputs)
        self._cache = output.past_key_values
        self._read = len(self._prompt) + len(written)
        logits: Tensor = output.logits[0, -1]
        return logits


def _reading_copy(model: PreTrainedModel, found: PolicyFolder, *, shared_base: bool) -> PreTrainedModel:
    """The model for reading. The engine leaves one with plain blocks as it is; of any other it changes the layers."""
    if has_plain_blocks(model.get_decoder().config):
        return model
    return load_model(found.folder, shared_base=shared_base)[0]


def _special_texts(tokenizer: PreTrainedTokenizerBase) -> tuple[str, ...]:
    """What a tokenizer reads as a mark and not as text, such as the end of a message."""
    added = [token.content for token in tokenizer.added_tokens_decoder.values() if token.special]
    return tuple(dict.fromkeys(text for text in (*tokenizer.all_special_tokens, *added) if text))


def _unknown_word(tokenizer: PreTrainedTokenizerBase, word_pattern: str) -> Callable[[str], str | None]:
    """A function that returns the first word of a text that a tokenizer of whole words lacks; others lack none."""
    if word_encoder(tokenizer) is None:
        return lambda _: None
    known, pattern = tokenizer.get_vocab().keys() - set(SPECIAL_TOKENS), re.compile(word_pattern)
    return lambda text: next((word for word in pattern.findall(text) if word not in known), None)
