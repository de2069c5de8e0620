"""Train with TRL's GRPOTrainer on games of ours: three-player Kuhn poker, from random weights.

    python tests/examples/trl_training.py --out runs/trl

Games are played in this process, under masks of legal choices, against two random players. Groups and advantages are
those of ``[grouping]``; loss, optimizer and logs are TRL's. It takes about half a minute on two cores. Any world can
take Kuhn poker's place: change the config's name.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path


def main(arguments: Sequence[str] | None = None) -> None:
    """Train, and show what the episodes earned."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("runs/trl"), help="folder for TRL's checkpoints")
    parser.add_argument("--steps", type=int, default=20, help="optimizer steps; each plays 192 games")
    options = parser.parse_args(arguments)

    from cluster.actors.initial_policy import make_policy
    from cluster.adapters.trl.games import Games
    from cluster.adapters.trl.trainer import EpisodeTrainer, grpo_config
    from cluster.configs.loader import load_config

    config = load_config("kuhn")
    model, tokenizer = make_policy(config.policy, config.run.seed, config.world.language)
    play = Games(config, tokenizer, blocks=12, opponents=("random",))
    args = grpo_config(
        config.learner,
        options.out,
        max_steps=options.steps,
        gradient_accumulation_steps=4,
        logging_steps=1,
        use_cpu=True,
        disable_tqdm=True,
    )
    trainer = EpisodeTrainer(model, tokenizer, play, args, config.learner, config.grouping)
    trainer.train()

    rewards = [row["reward"] for row in trainer.state.log_history if "reward" in row]
    part = max(1, len(rewards) // 4)
    print(f"mean chips a game, first steps: {sum(rewards[:part]) / part:.2f}")
    print(f"mean chips a game, last steps: {sum(rewards[-part:]) / part:.2f}")


if __name__ == "__main__":
    main()
