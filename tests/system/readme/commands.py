"""The commands that README and guides show, and how each is run in a test: literally, with settings that shorten it."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass

from tests.paths import ROOT

_PROGRAMS = ("make", "entente", "ray", "pip", "python", "source")
_FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_INLINE = re.compile(r"`([^`]+)`")


@dataclass(frozen=True, slots=True)
class Run:
    """A command that is run as shown, with ``shorter`` words after it."""

    shown: str
    shorter: str = ""
    prints: str = ""  # is in its output
    writes: str = ""  # a file below the test's folder
    exit_code: int = 0


@dataclass(frozen=True, slots=True)
class Elsewhere:
    """A command that another test runs, or that this machine cannot."""

    shown: str
    where: str  # the test's path, or why none runs it


_UPDATE = {
    "learner.updates": "1",
    "learner.episodes_per_update": "14",
    "rollout.num_generations": "2",
    "grouping.min_group_size": "2",
    "game.until_year": "1901",
    "evaluation.games_per_country": "1",
    "evaluation.until_year": "1901",
    "metrics.display": "false",
}
# The demo and the tests of training evaluate; other runs need not.
_NO_EVALUATION = {"evaluation.against": "[]", "evaluation.final_against": "[]"}
_IMITATION = {"imitation.games": "2", "imitation.until_year": "1902", "imitation.processes": "1"}


def _settings(**changed: str) -> str:
    settings = _UPDATE | {key.replace("__", "."): value for key, value in changed.items()}
    return shlex.join(word for key, value in settings.items() for word in ("--set", f"{key}={value}"))


_OTHER_WORLD = "--set metrics.display=false --set learner.updates=1 --set learner.episodes_per_update=24"
_PROBLEMS = (
    f"{_OTHER_WORLD} --set policy.hidden_size=32 --set policy.layers=1 --set imitation.games=40 "
    "--set imitation.epochs=1 --set imitation.control=none --set evaluation.problems=4 --set evaluation.samples=2"
)

COMMANDS: tuple[Run | Elsewhere, ...] = (
    Elsewhere("entente drill --processes 2 --only learner-1", "tests/soak/test_learner_group.py"),
    Elsewhere("make setup", "the first step of CI"),
    Elsewhere("make setup TORCH=auto", "takes a GPU's build from the network"),
    Elsewhere("make vllm", "the first step of CI"),
    Elsewhere("make test", "what CI runs"),
    Elsewhere("make adapters", "installs two packages from the registry: run before a release"),
    Elsewhere("make soak", "slow by nature: run before a release"),
    Elsewhere("make docs", "tests/system/documentation/test_site.py"),
    Elsewhere(
        "python -m http.server --bind 127.0.0.1 --directory build/docs", "tests/system/documentation/test_site.py"
    ),
    Elsewhere("pip install -e '.[control,atari,open-spiel,sensitivity]'", "the first step of CI has the same packages"),
    Elsewhere("source .venv/bin/activate", "CI's own environment"),
    Elsewhere("make clean", "removes the environment that tests run in"),
    Elsewhere("entente drill", "tests/system/training/test_drill.py"),
    Elsewhere("entente compare study", "takes three hours: its parts are those of `entente compare smoke`"),
    Elsewhere(
        "ray job submit --address http://127.0.0.1:8265 --working-dir . -- python -m cluster.train "
        "cluster/configs/cluster.toml --run-dir /shared/runs/first --start-or-resume --set redis.url=redis://HOST:6379/0",
        "tests/system/cluster/test_ray_job.py",
    ),
    Elsewhere("ray job stop", "tests/system/cluster/test_ray_job.py"),
    Run("entente", prints="Commands", exit_code=2),
    Run("make demo", _settings(), "done: runs/demo/summary.json", "runs/demo/games/trained-greedy/FRANCE.json"),
    Run("entente report runs/demo", writes="runs/demo/report.html"),
    Elsewhere("entente explore", "tests/system/reports/explorer/test_page.py"),
    Run("entente explore runs/demo", writes="runs/demo/explore.html"),
    Elsewhere("entente play --web", "tests/system/play_server/test_page.py"),
    Elsewhere("entente play --web --seat FRANCE=person --default runs/demo", "tests/system/play_server/test_page.py"),
    Elsewhere(
        "entente play --web --seat FRANCE=person --default champion",
        "tests/unit/cluster/evaluation/players/test_champion.py",
    ),
    Run(
        "entente evaluate champion --against dumbbot",
        "--games-per-country 1 --until 1901",
        "champion against six dumbbot",
    ),
    Run(
        "entente evaluate policy:champion --against dumbbot --until end --temperature 0.5",
        "--games-per-country 1 --until 1901",
        "policy:champion against six dumbbot",
    ),
    Run(
        "entente play --seat FRANCE=runs/demo --default dumbbot --until 1908 --out game.json --html game.html",
        "--until 1902",
        writes="game.html",
    ),
    Run(
        "entente play --draw-votes",
        "--default hold --until end --out drawn.json",
        "draw after 9 phases, 1905",
        "drawn.json",
    ),
    Run("entente replay game.json --policy runs/demo", writes="game.html"),
    Run("entente replay", "game.json game.json --out pair.html", writes="pair.html"),
    Run(
        "entente evaluate runs/demo greedy --against random,dumbbot --games-per-country 10 --until 1905",
        "--games-per-country 1 --until 1901",
        "greedy compared with runs/demo",
    ),
    Run(
        "entente compare-players runs/demo greedy dumbbot --until 1908",
        "--games-per-country 1 --until 1901",
        "mixed tables",
    ),
    Run(
        "entente ladder runs/demo greedy dumbbot random --html ladder.html",
        "--games-per-country 1 --until 1901",
        writes="ladder.html",
    ),
    Run(
        "entente evaluate lookahead --against dumbbot --until end --games-per-country 30 --save-games games/lookahead",
        "--games-per-country 1 --until 1901",
        "lookahead against six dumbbot",
    ),
    Run(
        "entente imitate --games 0 --saved-games games/lookahead --set 'imitation.saved_players=[\"lookahead\"]' --out "
        "models/lookahead",
        "--set imitation.processes=1 --set imitation.epochs=1",
        writes="models/lookahead/model.safetensors",
    ),
    Run(
        "entente scenarios run runs/demo random dumbbot --repeats 5",
        "--repeats 1 --family alliance",
        "alliance",
    ),
    Run(
        "entente train laptop --set learner.learning_rate=1e-4 --run-dir runs/slower",
        _settings(**_NO_EVALUATION),
        writes="runs/slower/summary.json",
    ),
    Run(
        "entente train --resume --run-dir runs/demo --set learner.updates=180",
        "--set learner.updates=2",
        "update 2/2",
    ),
    Run("entente train --keys", prints="learning_rate = "),
    Run("entente groups audit runs/demo", prints="country+phase"),
    Run("entente groups study", "runs/demo/checkpoints/2 --batches 4", writes="study.html"),
    Run("entente groups audit runs/demo", prints="country+phase"),
    Run("entente doctor laptop"),
    Run("entente doctor --run runs/demo"),
    Run("entente bench", "--only bots --rounds 1", writes="bench.json"),
    Run(
        "entente imitate --out models/dumbbot",
        "--games 2 --set imitation.processes=1",
        writes="models/dumbbot/model.safetensors",
    ),
    Run(
        "entente train laptop --set policy.path=models/dumbbot --run-dir runs/imitated",
        _settings(**_NO_EVALUATION),
        writes="runs/imitated/summary.json",
    ),
    Run(
        "entente train beat_dumbbot",
        _settings(
            **_IMITATION,
            **_NO_EVALUATION,
            rollout__actors="1",
        ),
        writes="runs/beat_dumbbot/summary.json",
    ),
    Run(
        "entente train league",
        _settings(**_NO_EVALUATION, rollout__actors="1"),
        writes="runs/league/summary.json",
    ),
    Run("entente population list runs/demo", prints="random"),
    Run("entente population add runs/slower --to runs/demo", prints="slower"),
    Run("entente population rate runs/demo", "--games 1 --until 1901", "slower"),
    Run(
        "entente train specialists",
        _settings(
            **_IMITATION,
            **_NO_EVALUATION,
        ),
        writes="runs/specialists/summary.json",
    ),
    Run(
        "entente play --seat FRANCE=remote:gpt --config players.toml --until 1903 --out remote.json",
        "--until 1901",
        "remote:gpt",
        "remote.json",
    ),
    Run(
        "entente evaluate runs/demo --against remote:gpt --config players.toml --games-per-country 1 --until 1903",
        "--until 1901",
        "remote:gpt",
    ),
    Run(
        """entente train laptop --run-dir runs/tracked --set 'metrics.trackers=["tensorboard", "wandb", "trackio"]'""",
        _settings(**_NO_EVALUATION),
        writes="runs/tracked/trackers/tensorboard",
    ),
    Run("entente export runs/demo --out models/demo", writes="models/demo/model.safetensors"),
    Run("entente play", "--seat FRANCE=models/demo --until 1901 --out exported.json", writes="exported.json"),
    Run("entente export runs/specialists --country FRANCE --out models/france", writes="models/france/config.json"),
    Run("entente export runs/demo --decisions --out data/demo", writes="data/demo/README.md"),
    Run("entente monitoring --out monitoring", writes="monitoring/prometheus/prometheus.yml"),
    Run(
        "entente train laptop --set inference.engine=vllm --run-dir runs/vllm",
        _settings(**_NO_EVALUATION),
        writes="runs/vllm/summary.json",
    ),
    Run(
        "entente train gpu --set policy.path=Qwen/Qwen3-0.6B --set inference.thinking_tokens=256",
        _settings(
            inference__thinking_tokens="8",
            learner__gpus="0",
            rollout__gpus_per_actor="0",
            learner__threads="1",
            evaluation__against="[]",
            policy__dtype="float32",
            inference__dtype="float32",
            learner__bf16="false",
        ),
        writes="runs/gpu/summary.json",
    ),
    Run(
        "entente play --seat FRANCE=runs/gpu --until 1903 --out prompts.json --show-prompts",
        "--until 1901",
        "whole prompt",
    ),
    Run(
        "entente play --press --seat FRANCE=honest --default breaker --out press.json --html press.html",
        "--until 1901",
        writes="press.html",
    ),
    Run(
        "entente train press",
        _settings(**_IMITATION, **_NO_EVALUATION, rollout__actors="1"),
        writes="runs/press/summary.json",
    ),
    Run(
        "entente evaluate runs/press muted:runs/press --press --against honest+breaker --until 1906 "
        "--save-games games/press",
        "--games-per-country 1 --until 1901",
        "muted:runs/press",
    ),
    Run("entente conduct games/press --by-year", prints="breaker"),
    Run(
        "entente listen learn games/press --out models/listener",
        "--questions 3 --epochs 1",
        "nats a token",
        "models/listener/listener.json",
    ),
    Run(
        "entente evaluate honest --press --against stabber+keeper --until 1906 --seed 1 --save-games games/others",
        "--games-per-country 1 --until 1901",
        "honest against",
    ),
    Run("entente listen ask models/listener games/others", "--questions 2", "surprise"),
    Run(
        "entente train kuhn",
        f"{_OTHER_WORLD} --set rollout.num_generations=4 --set evaluation.games_per_role=2",
        "done: runs/kuhn/summary.json",
        "runs/kuhn/report.html",
    ),
    Run("entente train word_problems", _PROBLEMS, "done: runs/word_problems/summary.json"),
    Run(
        'entente solve runs/word_problems --question "Five friends share 65 marbles equally. How many does each get?" '
        "--agents vote",
        prints="step_by_step",
    ),
    Run(
        "entente compare smoke --out runs/compare",
        "--tasks cartpole --methods grpo_time",
        writes="runs/compare/compare.html",
    ),
    Run(
        "entente compare sensitivity --out runs/settings",
        "--trials 10 --steps 200",
        "recommended",
        "runs/settings/compare.html",
    ),
)


def shown_blocks(language: str) -> list[str]:
    """The code blocks of the README and the guides in a language; "" for commands and drawings."""
    return [text for page in _pages() for name, text in _FENCE.findall(page) if name == language]


def shown_commands() -> Iterator[str]:
    """Every command of the README and the guides, as one line without its comment."""
    for block in shown_blocks(""):
        for line in block.splitlines():
            if line.partition(" ")[0] in _PROGRAMS:
                yield shlex.join(shlex.split(line, comments=True))
    for page in _pages():
        for code in _INLINE.findall(_FENCE.sub("", page)):
            if code.split()[0] in _PROGRAMS:
                yield shlex.join(shlex.split(code))


def _pages() -> Iterator[str]:
    for file in (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))):
        yield file.read_text(encoding="utf-8")
