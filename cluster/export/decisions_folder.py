"""A run's games and decisions as a folder of parquet files that ``datasets`` reads."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cluster.configs.schema import Config
from cluster.errors import RunError
from cluster.export.saved_games import (
    DECISIONS,
    GAMES,
    LEFT_OUT_OF_DECISIONS,
    SavedGame,
    decision_rows,
    game_files,
    game_row,
    read_game,
)
from cluster.export.tables import Column, check_parquet, write_table
from cluster.runs.folder import RunFolder
from cluster.runs.new_folder import new_folder
from cluster.runs.progress_bars import AddBar
from grpo_core.checkpoints.atomic_write import write_atomically
from grpo_core.checkpoints.folders import checkpoint_versions, latest_checkpoint
from opponents.prompts.policy_prompt import PolicyPrompt

FORMAT = 1  # of the columns
NO_SEATS = "no saved game says who played, and none lies where the run's evaluations save theirs"
NO_TOKENIZER = "the run has no whole checkpoint, with whose tokenizer its prompts are written"
NOT_IN_FILES = "no saved game has the key entente"

_CARD = """---
{license}task_categories:
- reinforcement-learning
tags:
- diplomacy
- entente
configs:
{configs}
---

# Games and decisions of {name}

Made by `entente export --decisions` from a run of Entente, which trains language-model policies to play Diplomacy.

```python
from datasets import load_dataset

decisions = load_dataset("THIS_FOLDER", "{first}", split="train")
```
{tables}
The same descriptions are in each file's schema metadata, under `entente`. `games` and `decisions` are the games that
the run saved, evaluation games above all, with the decisions of all seven players. `training_decisions` are the
policy's own decisions in the batch of the newest checkpoint's update; a run keeps no earlier batch.
"""


@dataclass(frozen=True, slots=True)
class ExportedDecisions:
    """Rows written, by table: ``games``, ``decisions`` and, where the run has a batch, ``training_decisions``."""

    folder: Path
    rows: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class _Table:
    """One file of the folder, with the columns that it has."""

    name: str
    columns: Sequence[Column]
    left_out: Mapping[str, str]
    rows: int


def export_decisions(
    run_dir: Path, out: Path, add_bar: AddBar, *, license_name: str | None = None
) -> ExportedDecisions:
    """Write the run's saved games, their decisions and those of its newest batch to the new folder ``out``.

    Raises:
        RunError: there is no such run, it has neither games nor a batch, ``out`` exists, or pyarrow is not installed.
        SavedGameError: a saved game is damaged.
        CheckpointError: the checkpoint of the batch has no usable tokenizer.
        StorageError: ``out`` cannot be written.
    """
    check_parquet()
    run = RunFolder(run_dir)
    config = run.stored_config()
    if not config.world.saves_positions:
        raise RunError(f"{run_dir}: games of the world {config.world.name} have no table of decisions")
    summary = run.read_summary()
    about = {
        "format": FORMAT,
        "run": config.run.name,
        "commit": summary.get("commit"),
        "config_digest": summary.get("config_digest"),
        "seed": config.run.seed,
    }
    with new_folder(out) as draft:
        tables = [*_saved(run_dir, _versions_of(summary), _prompts(run, config), draft, about, add_bar)]
        tables += _trained(run, config, draft, about, add_bar)
        if not any(table.rows for table in tables):
            raise RunError(f"{run_dir} has no games/ and no batch in audit/ yet: there is nothing to export")
        write_atomically(draft / "README.md", _card(config.run.name, tables, license_name).encode())
    return ExportedDecisions(out, {table.name: table.rows for table in tables})


def _versions_of(summary: Mapping[str, Any]) -> dict[str, str]:
    """The policy of each evaluation's label, as ``label (checkpoints/4)``."""
    return {str(row["label"]): f"{row['label']} ({row['checkpoint']})" for row in summary.get("evaluations", [])}


def _prompts(run: RunFolder, config: Config) -> PolicyPrompt | None:
    """The run's prompts in the tokens of its newest checkpoint; None without one."""
    from grpo_core.models.pretrained import load_tokenizer  # takes seconds
    from opponents.players.llm_policy import TokenizedLanguage

    newest = latest_checkpoint(run.path)
    if newest is None:
        return None
    tokenizer = load_tokenizer(newest)
    return TokenizedLanguage(config.world.language, tokenizer, config.policy, config.inference).prompts


def _saved(
    run_dir: Path,
    evaluated: Mapping[str, str],
    prompts: PolicyPrompt | None,
    draft: Path,
    about: Mapping[str, Any],
    add_bar: AddBar,
) -> Iterator[_Table]:
    files = game_files(run_dir)
    advance = add_bar("reading saved games", 2 * len(files))

    def games() -> Iterator[SavedGame]:
        for file in files:
            yield read_game(run_dir, file, evaluated)
            advance(1)

    rows = [game_row(game) for game in games()]
    left_out = {} if any("seats" in row for row in rows) else {"seats": NO_SEATS}
    if not any("entente" in row for row in rows):
        left_out["entente"] = NOT_IN_FILES
    yield _write(draft, "games", GAMES, rows, left_out, about)
    lacking = dict(LEFT_OUT_OF_DECISIONS)
    if "seats" in left_out:
        lacking["player"] = NO_SEATS
    if prompts is None:
        lacking["prompt"] = NO_TOKENIZER
    decisions = (row for game in games() for row in decision_rows(game, prompts))
    yield _write(draft, "decisions", DECISIONS, decisions, lacking, about)


def _trained(
    run: RunFolder, config: Config, draft: Path, about: Mapping[str, Any], add_bar: AddBar
) -> Iterator[_Table]:
    from cluster.actors.audit_batch import load_last_batch  # and torch with the rest, which takes seconds
    from cluster.export.training_decisions import advantages_of, columns_of, rows_of

    batch, versions = load_last_batch(run), checkpoint_versions(run.path)
    if batch is None or not versions:
        return
    advance = add_bar("reading the newest batch", len(batch.episodes))
    found, unknown = advantages_of(run, config, batch)
    columns, left_out = columns_of(config, unknown)
    if found is None:
        left_out["return"] = str(unknown)
    rows = rows_of(run, batch, versions[-1], found)
    yield _write(draft, "training_decisions", columns, rows, left_out, {**about, "update": batch.learner_version + 1})
    advance(len(batch.episodes))


def _write(
    draft: Path,
    name: str,
    columns: Sequence[Column],
    rows: Any,
    left_out: Mapping[str, str],
    about: Mapping[str, Any],
) -> _Table:
    kept = [column for column in columns if column.name not in left_out]
    count = write_table(draft / f"{name}.parquet", kept, rows, left_out=left_out, about=about)
    return _Table(name, kept, left_out, count)


def _card(name: str, tables: Sequence[_Table], license_name: str | None) -> str:
    configs = "\n".join(f"- config_name: {table.name}\n  data_files: {table.name}.parquet" for table in tables)
    parts = []
    for table in tables:
        lines = [f"\n## {table.name}: {table.rows:,} rows\n", "| column | |", "| --- | --- |"]
        lines += [f"| `{column.name}` | {column.description} |" for column in table.columns]
        lines += [f"| ~~`{each}`~~ | left out: {reason} |" for each, reason in table.left_out.items()]
        parts.append("\n".join(lines))
    return _CARD.format(
        license=f"license: {license_name}\n" if license_name else "",
        configs=configs,
        name=json.dumps(name)[1:-1],
        first="decisions",
        tables="\n".join(parts) + "\n",
    )
