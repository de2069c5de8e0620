"""Evaluation games of a run in training may have the champion as the anchor."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

from cluster.actors.rollout import RolloutWorker
from cluster.configs.loader import load_config
from cluster.evaluation.evaluation_games import evaluation_row
from grpo_core.models.pretrained import load_model, weights_payload
from opponents.champion.shipped import shipped_champion
from services.environments.diplomacy.game_origin import ORIGIN_KEY
from services.environments.evaluation import EvaluationGame
from services.weights.payload import make_payload

SHORT = ("game.until_year=1901", "evaluation.until_year=1901")
WITH_NOTES = ("policy.notes=true", "policy.context_length=768", "inference.max_completion_length=448")


def test_the_champion_fills_the_other_seats_and_is_told_by_its_weights(tmp_path: Path) -> None:
    champion = shipped_champion()
    config = load_config(
        "smoke", ["policy.path=champion", *WITH_NOTES, "run.name=demo", 'evaluation.against=["champion"]', *SHORT]
    )
    payload = make_payload(3, weights_payload(load_model(champion.folder)[0]))
    files = {name: tmp_path / f"{name}.json" for name in ("champion", "hold")}
    specs = [EvaluationGame("ITALY", name, 0, "", 0, save_to=str(file)) for name, file in files.items()]

    async def act() -> None:
        worker = RolloutWorker(config, str(champion.folder), str(tmp_path / "population.json"), None)
        await worker.swap(payload)
        results = await worker.play_evaluation(specs, 3)
        await worker.close()
        row = evaluation_row(config.world, config.evaluation, results, checkpoint="checkpoints/3", against="champion")
        assert (row["against_version"], row["against_checksum"]) == (champion.version, champion.checksum)
        assert "against_version" not in evaluation_row(
            config.world, config.evaluation, results, checkpoint="checkpoints/3", against="hold"
        )

    asyncio.run(act())
    told = {name: json.loads(file.read_text())[ORIGIN_KEY]["seats"] for name, file in files.items()}
    assert told["champion"]["ITALY"]["player"] == told["hold"]["ITALY"]["player"] == "demo/checkpoints/3"
    assert {seat["player"] for seat in told["hold"].values()} == {"demo/checkpoints/3", "hold"}
    assert told["champion"]["FRANCE"]["player"] == "champion"
    assert told["champion"]["FRANCE"]["checksum"] == champion.checksum
