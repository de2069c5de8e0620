"""Word problems trained end to end, beside TRL's ``GRPOTrainer`` on the same model, prompts and lengths.

Both start from the same policy, which has imitated worked solutions, so that completions have their usual lengths. Both
sample eight completions of each prompt at temperature 1, reward the right final number, and make one update of as many
completions. Ours runs as it is used, on a cluster of one machine with its replay server; TRL runs in a process of its
own with a thread for every core, and generates by transformers, as it does without a GPU.
"""

from __future__ import annotations

import importlib.util
import json
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from cluster.bench.figure import Figure, MissingRequirementError
from cluster.errors import RunError

CONFIG = "word_problems"
UPDATES = {"ours": 24, "trl": 3}  # after a first one that is not timed; TRL takes longer for each
IMITATED = 6000  # solutions: enough for completions of the usual lengths
RUN_TIMEOUT_S = 3600.0
_OVERRIDES = (
    "imitation.games=0",
    "imitation.control=none",
    "evaluation.against=[]",
    "evaluation.final_against=[]",
    "metrics.display=false",
    "game.reward={ exact_number = 1.0 }",
)


def run(rounds: int) -> list[Figure]:
    """Train both ways in turn, ``rounds`` times each: completions a second, generation and learning together.

    Raises MissingRequirementError without TRL, RunError if a process fails.
    """
    if importlib.util.find_spec("trl") is None:
        raise MissingRequirementError("TRL is not installed; get it with: pip install 'trl>=1.16,<1.17'")
    ours: list[dict[str, float]] = []
    trl: list[dict[str, float]] = []
    with tempfile.TemporaryDirectory(prefix="entente-trl-") as place:
        folder = Path(place)
        _process(["-m", "cluster.cli", "imitate", CONFIG, "--games", str(IMITATED), "--out", str(folder / "policy")])
        for seed in range(rounds):
            ours.append(_ours(folder, seed))
            trl.append(_trl(folder, seed))
    note = (
        f"config {CONFIG}, {UPDATES['ours']} and {UPDATES['trl']} updates after a first one, median of {rounds}; mean "
        f"tokens of a completion {_median(ours, 'length'):.0f} and {_median(trl, 'length'):.0f}"
    )
    return [
        Figure(f"word problems, {what}", unit, _median(ours, key), _median(trl, key), "TRL's GRPOTrainer", note=note)
        for what, unit, key in (
            ("training", "completions/s", "completions"),
            ("training, tokens learned from", "tokens/s", "tokens"),
        )
    ]


def _median(measured: Sequence[dict[str, float]], key: str) -> float:
    return statistics.median(each[key] for each in measured)


def _ours(folder: Path, seed: int) -> dict[str, float]:
    run_dir = folder / f"ours-{seed}"
    given = [*_OVERRIDES, f"policy.path={folder / 'policy'}", f"run.seed={seed}", f"learner.updates={UPDATES['ours']}"]
    overrides = [part for override in given for part in ("--set", override)]
    _process(["-m", "cluster.cli", "train", CONFIG, "--run-dir", str(run_dir), *overrides])
    lines = [json.loads(line)["metrics"] for line in (run_dir / "metrics.jsonl").read_text().splitlines()]
    timed = [line for line in lines if "entente_update_seconds" in line]
    first, last = timed[0], timed[-1]
    seconds = last["entente_run_seconds_total"] - first["entente_run_seconds_total"]

    def grown(name: str) -> float:
        return float(last[name] - first[name])

    return {
        "completions": grown("entente_episodes_total") / seconds,
        "tokens": grown("entente_learner_tokens_total") / seconds,
        "length": grown("entente_completion_tokens_total") / max(1.0, grown("entente_decisions_total")),
    }


def _trl(folder: Path, seed: int) -> dict[str, float]:
    out = folder / f"trl-{seed}.json"
    _process(["-m", "cluster.bench.system.trl_training", str(folder / "policy"), str(seed), str(out)])
    measured: dict[str, float] = json.loads(out.read_text())
    return measured


def _process(arguments: Sequence[str]) -> None:
    done = subprocess.run(
        [sys.executable, *arguments], capture_output=True, text=True, timeout=RUN_TIMEOUT_S, check=False
    )
    if done.returncode:
        raise RunError(f"{' '.join(arguments[:3])} failed: {(done.stderr or done.stdout).strip()[-400:]}")


def train_with_trl(policy: Path, seed: int) -> dict[str, float]:
    """Train with TRL on the prompts that the run of this seed would draw; return what was measured."""
    import importlib
    import os
    import time

    import torch
    from transformers import TrainerCallback

    from cluster.configs.loader import load_config
    from grpo_core.models.pretrained import load_model
    from grpo_core.seeds import derive_seed
    from services.environments.word_problems.play.starts import problem_of
    from services.environments.word_problems.rewards.components import exact_number

    trl: Any = importlib.import_module("trl")
    datasets: Any = importlib.import_module("datasets")
    torch.set_num_threads(len(os.sched_getaffinity(0)))
    config = load_config(CONFIG, [*_OVERRIDES, f"run.seed={seed}"])
    world, episodes = config.world, config.learner.episodes_per_update
    model, tokenizer = load_model(policy)
    tokenizer.eos_token = world.language.stop  # a completion ends with it on both sides
    model.generation_config.eos_token_id = tokenizer.eos_token_id
    starts, rows, problems = world.starts(), [], {}
    for number in range(episodes // config.rollout.num_generations * (UPDATES["trl"] + 1)):
        role = world.roles[number % len(world.roles)]
        start = starts.draw(role, derive_seed(seed, "trl", number))
        prompt = world.language.prompt(world.new_game(start, role, 0).view(role), role)
        problems[prompt] = problem_of(start, None)
        rows.append({"prompt": prompt})
    lengths: list[int] = []

    def reward(prompts: Sequence[str], completions: Sequence[str], completion_ids: Any, **_: Any) -> list[float]:
        lengths.extend(len(ids) for ids in completion_ids)
        return [exact_number(text, problems[prompt]) for prompt, text in zip(prompts, completions, strict=True)]

    class Clock(TrainerCallback):  # type: ignore[misc]  # transformers says nothing of its type
        def __init__(self) -> None:
            self.ends: list[float] = []

        def on_step_end(self, *_: Any, **__: Any) -> None:
            self.ends.append(time.perf_counter())

    clock = Clock()
    with tempfile.TemporaryDirectory() as output:
        settings = trl.GRPOConfig(
            output_dir=output,
            use_cpu=True,
            bf16=False,
            gradient_checkpointing=False,
            report_to="none",
            disable_tqdm=True,
            save_strategy="no",
            logging_strategy="no",
            seed=seed,
            shuffle_dataset=False,
            per_device_train_batch_size=episodes,
            num_generations=config.rollout.num_generations,
            max_completion_length=config.inference.max_completion_length,
            max_steps=UPDATES["trl"] + 1,
            temperature=config.inference.temperature,
            learning_rate=config.learner.learning_rate,
            beta=0.0,
        )
        trainer = trl.GRPOTrainer(
            model=model,
            reward_funcs=reward,
            args=settings,
            train_dataset=datasets.Dataset.from_list(rows),
            processing_class=tokenizer,
            callbacks=[clock],
        )
        trainer.train()
    seconds = clock.ends[-1] - clock.ends[0]
    completions = episodes * (len(clock.ends) - 1)
    prompt_tokens = statistics.fmean(len(tokenizer(row["prompt"])["input_ids"]) for row in rows)
    length = statistics.fmean(lengths)
    return {
        "completions": completions / seconds,
        "tokens": completions * (prompt_tokens + length) / seconds,
        "length": length,
    }


if __name__ == "__main__":
    Path(sys.argv[3]).write_text(json.dumps(train_with_trl(Path(sys.argv[1]), int(sys.argv[2]))))
