"""Tokens of chat prompts in recorded games: ``python -m tests.benchmarks.prompt_sizes --games DIR --model DIR``.

Of each game it takes the first, a middle and the last movement phase, and every power's prompt there.
"""

from __future__ import annotations

import argparse
from collections import defaultdict
from pathlib import Path
from statistics import fmean

from grpo_core.models.hub import model_folder
from grpo_core.models.pretrained import load_tokenizer
from grpo_core.settings import PolicySettings
from opponents.players.llm_policy import TokenizedLanguage
from services.environments.diplomacy.played_phases import played_phases
from services.environments.diplomacy.position import Position
from services.environments.diplomacy.saved_game import read_saved_game
from services.environments.diplomacy.world import Diplomacy
from services.settings import InferenceSettings

ROOM = 1 << 20  # so that nothing is cut
MOMENTS = ("first", "middle", "last")


def moments(file: Path) -> list[Position]:
    """The first, a middle and the last movement phase of a saved game that has orders."""
    phases = played_phases(read_saved_game(file), str(file))
    found = [phase.position for phase in phases if phase.position.kind == "M"]
    return [found[0], found[len(found) // 2], found[-1]]


def main() -> None:
    """Print the mean and the largest number of tokens of each part, at each of the three moments."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--games", type=Path, required=True, help="folder of saved games (*.json)")
    parser.add_argument("--model", required=True, help="folder, or name on the Hub, of a model with a chat template")
    parser.add_argument("--most", type=int, default=10, help="games")
    arguments = parser.parse_args()
    tokenizer = load_tokenizer(model_folder(arguments.model))
    settings = PolicySettings(prompt="chat", context_length=ROOM)
    prompts = TokenizedLanguage(Diplomacy.language, tokenizer, settings, InferenceSettings()).prompts
    sizes: dict[str, list[dict[str, int]]] = defaultdict(list)
    characters: dict[str, list[int]] = defaultdict(list)
    files = sorted(arguments.games.glob("*.json"))[: arguments.most]
    for file in files:
        for moment, position in zip(MOMENTS, moments(file), strict=True):
            for power in position.to_move:
                sizes[moment].append(prompts.section_tokens(position, power))
                characters[moment].append(len(prompts.text(position, power)))
    parts = list(dict.fromkeys(part for each in sizes.values() for one in each for part in one))
    print(f"{len(files)} games, a vocabulary of {len(tokenizer):,}; mean (largest) tokens of a power's prompt")
    print("| part | " + " | ".join(f"{moment} movement" for moment in MOMENTS) + " |")
    print("|---|" + "---|" * len(MOMENTS))
    for part in parts:
        print(
            f"| {part} | " + " | ".join(_cell([one.get(part, 0) for one in sizes[moment]]) for moment in MOMENTS) + " |"
        )
    print("| whole | " + " | ".join(_cell([sum(one.values()) for one in sizes[moment]]) for moment in MOMENTS) + " |")
    print("| characters | " + " | ".join(_cell(characters[moment]) for moment in MOMENTS) + " |")


def _cell(numbers: list[int]) -> str:
    return f"{fmean(numbers):,.0f} ({max(numbers):,})"


if __name__ == "__main__":
    main()
