"""Decisions and completion tokens a second of the torch engine on real positions, beside ``transformers.generate``."""

from __future__ import annotations

import asyncio
import statistics
import time
from collections import deque
from collections.abc import Sequence

import torch
from transformers import GenerationConfig, PreTrainedModel, PreTrainedTokenizerBase

from cluster.bench.figure import Figure
from cluster.bench.inference.actor_process import actor_process
from grpo_core.models.pretrained import make_small_model
from grpo_core.settings import PolicySettings
from opponents.bots.registry import make_bot
from opponents.players.llm_policy import OrderTokens
from services.environments.diplomacy.game import DiplomacyGame
from services.environments.diplomacy.notation import WORD_PATTERN, render, words
from services.environments.diplomacy.orders import sheet
from services.environments.diplomacy.position import POWERS
from services.inference.constraints import SheetConstraint, SheetState
from services.inference.engine import GenerationRequest
from services.inference.torch_backend.engine import TorchEngine
from services.inference.word_tokenizer import make_word_tokenizer

BATCH = 64
DECISIONS = 5 * BATCH
UNTIL_YEAR = 1905
MAX_COMPLETION_LENGTH = 224


def run(rounds: int) -> list[Figure]:
    """The small policy, one thread, 64 decisions at a time; both sides write the same decisions in alternating rounds.

    ``transformers.generate`` runs in left-padded batches of 64, once under the same masks (through
    ``prefix_allowed_tokens_fn``) and once without any mask, made to write as many tokens (its best case).
    """
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        return _measure(rounds)
    finally:
        torch.set_num_threads(threads)


def _measure(rounds: int) -> list[Figure]:
    tokenizer = make_word_tokenizer(words(), WORD_PATTERN)
    requests = real_requests(OrderTokens(tokenizer), DECISIONS)
    batches = [requests[start : start + BATCH] for start in range(0, len(requests), BATCH)]
    yardstick = small_policy(tokenizer)
    seconds: dict[str, list[float]] = {"ours": [], "masked": [], "plain": []}
    written: dict[str, list[int]] = {"ours": [], "masked": [], "plain": []}
    with actor_process("torch engine", _Ours) as actor:
        tokens, _ = actor.call(_Ours.round)  # warms up, and tells how long sheets are
        length = round(tokens / len(requests))
        generate(yardstick, tokenizer, batches[0][:8], length, masked=True)
        for _ in range(rounds):
            tokens, took = actor.call(_Ours.round)
            written["ours"].append(tokens)
            seconds["ours"].append(took)
            for name in ("masked", "plain"):
                start = time.perf_counter()
                written[name].append(
                    sum(generate(yardstick, tokenizer, batch, length, masked=name == "masked") for batch in batches)
                )
                seconds[name].append(time.perf_counter() - start)
    elapsed = {name: statistics.median(values) for name, values in seconds.items()}
    rate = {name: statistics.median(written[name]) / elapsed[name] for name in written}
    prompt = statistics.mean(len(request.prompt_ids) for request in requests)
    note = (
        f"prompts of {prompt:.0f} tokens, sheets of {length}, 1 thread, {BATCH} at a time, median of {rounds}; "
        "the engine in an actor's environment, generate in a plain process"
    )
    masked, plain = "transformers.generate, same masks", "transformers.generate, no mask"
    return [
        Figure("decisions", "1/s", DECISIONS / elapsed["ours"], DECISIONS / elapsed["masked"], masked, note=note),
        Figure("completion tokens", "1/s", rate["ours"], rate["masked"], masked, note=note),
        Figure("completion tokens", "1/s", rate["ours"], rate["plain"], plain, note=note),
    ]


class _Ours:
    """The torch engine and the requests."""

    def __init__(self) -> None:
        tokenizer = make_word_tokenizer(words(), WORD_PATTERN)
        self._engine = TorchEngine(small_policy(tokenizer), max_concurrent_decisions=BATCH, threads=1)
        self._requests = real_requests(OrderTokens(tokenizer), DECISIONS)

    def round(self) -> tuple[int, float]:
        """Completion tokens and seconds of all requests, queued at once."""
        start = time.perf_counter()
        tokens = asyncio.run(self._write_all())
        return tokens, time.perf_counter() - start

    async def _write_all(self) -> int:
        generations = await asyncio.gather(*(self._engine.generate(request) for request in self._requests))
        return sum(len(generation.completion_ids) for generation in generations)


def real_requests(tokens: OrderTokens, count: int) -> list[GenerationRequest]:
    """Decisions of one seat a game, countries in rotation: a DumbBot among random players, much as a policy trains."""
    strong, weak = make_bot("dumbbot"), make_bot("random")
    requests: list[GenerationRequest] = []
    seed = 0
    while len(requests) < count:
        game, seat = DiplomacyGame(UNTIL_YEAR), POWERS[seed % len(POWERS)]
        while not game.is_done:
            position = game.position
            if seat in position.to_move:
                requests.append(
                    GenerationRequest(
                        prompt_ids=tokens.prompt(render(position, seat)),
                        constraint=tokens.constraint(sheet(position, seat)),
                        seed=len(requests),
                        max_completion_length=MAX_COMPLETION_LENGTH,
                    )
                )
            for power in position.to_move:
                bot = strong if power == seat else weak
                game.set_orders(power, bot.orders(position, power, seed))
            game.process()
        seed += 1
    return requests[:count]


def small_policy(tokenizer: PreTrainedTokenizerBase) -> PreTrainedModel:
    """The small policy of the default settings, untrained."""
    return make_small_model(
        PolicySettings(),
        len(tokenizer),
        eos_id=tokenizer.eos_token_id,
        bos_id=tokenizer.bos_token_id,
        pad_id=tokenizer.pad_token_id,
        seed=0,
    )


def generate(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    requests: Sequence[GenerationRequest],
    length: int,
    *,
    masked: bool,
) -> int:
    """Completion tokens of one left-padded batch through ``transformers.generate``.

    Args:
        model: any causal LM.
        tokenizer: its tokenizer.
        requests: the batch.
        length: tokens of every completion where nothing is masked.
        masked: sheets are written under their masks, of whatever length.
    """
    longest = max(len(request.prompt_ids) for request in requests)
    pad, end = int(tokenizer.pad_token_id), int(tokenizer.eos_token_id)
    input_ids = torch.tensor([[pad] * (longest - len(r.prompt_ids)) + list(r.prompt_ids) for r in requests])
    shared = {"do_sample": True, "top_k": 0, "pad_token_id": pad, "eos_token_id": end}
    masks = None
    if masked:
        masks = _Masks([request.constraint for request in requests], end)
        config = GenerationConfig(max_new_tokens=MAX_COMPLETION_LENGTH, **shared)
    else:
        config = GenerationConfig(min_new_tokens=length, max_new_tokens=length, **shared)
    with torch.inference_mode():
        output = model.generate(
            input_ids, attention_mask=input_ids != pad, generation_config=config, prefix_allowed_tokens_fn=masks
        )
    return int((output[:, longest:] != pad).sum()) if masked else len(requests) * length


class _Masks:
    """``prefix_allowed_tokens_fn``: each row's state walks along, so that no step looks at the whole past again."""

    def __init__(self, constraints: Sequence[SheetConstraint | None], end: int) -> None:
        self._states = [SheetState(constraint) for constraint in constraints if constraint is not None]
        self._forced = [deque(state.forced()) for state in self._states]
        self._chosen = [False] * len(self._states)  # the last token of the row was its own choice
        self._end = end

    def __call__(self, row: int, ids: torch.Tensor) -> list[int]:
        state, forced = self._states[row], self._forced[row]
        if self._chosen[row]:
            state.advance(int(ids[-1]))
            forced.extend(state.forced())
            self._chosen[row] = False
        if forced:
            return [forced.popleft()]
        if state.finished:
            return [self._end]
        self._chosen[row] = True
        return [int(token) for token in state.admissible()]
