"""The run on disk: ``runs/<name>/`` and what lies in it."""

from __future__ import annotations

import json
import os
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cluster.config import Config, dump_config, load_config
from cluster.errors import RunError


@dataclass(frozen=True, slots=True)
class RunFolder:
    """Paths of one run."""

    path: Path

    @property
    def config(self) -> Path:
        """The resolved configuration."""
        return self.path / "config.toml"

    @property
    def metrics(self) -> Path:
        """One JSON object an update."""
        return self.path / "metrics.jsonl"

    @property
    def checkpoints(self) -> Path:
        """One folder a durable version."""
        return self.path / "checkpoints"

    @property
    def audit(self) -> Path:
        """One record an update."""
        return self.path / "audit"

    @property
    def games(self) -> Path:
        """Saved games."""
        return self.path / "games"

    @property
    def population(self) -> Path:
        """The population file; snapshots lie beside it."""
        return self.path / "population.json"

    @property
    def redis(self) -> Path:
        """Where the embedded server keeps its append-only file."""
        return self.path / "redis"

    @property
    def summary(self) -> Path:
        """The run's stable result contract."""
        return self.path / "summary.json"

    @property
    def run_id(self) -> str:
        """Names the run in a shared replay server; made once, so that two runs of one name never meet."""
        return (self.path / "run_id").read_text(encoding="utf-8").strip()

    def open(self, config: Config, *, resume: bool) -> None:
        """Begin a new run, or go on with the one that is here.

        Raises:
            RunError: there is a run already (or none to resume), or the folder cannot be written.
        """
        if not resume and self.config.exists():
            raise RunError(
                f"{self.path} already holds a run; add --resume to go on with it, or choose another --run-dir"
            )
        if resume and not self.config.exists():
            raise RunError(f"no run to resume in {self.path} (no config.toml); start it without --resume")
        try:
            for folder in (self.path, self.checkpoints, self.audit, self.games):
                folder.mkdir(parents=True, exist_ok=True)
            if not (self.path / "run_id").exists():
                write_atomically(self.path / "run_id", f"{config.run.name}-{secrets.token_hex(4)}\n")
            write_atomically(self.config, dump_config(config))
        except OSError as error:
            raise RunError(f"cannot write the run folder {self.path}: {error.strerror}") from error

    def resumed_config(self, overrides: Sequence[str]) -> Config:
        """The configuration of the run to resume, with ``section.key=value`` changes.

        Raises:
            RunError: there is no run here.
        """
        if not self.config.exists():
            raise RunError(f"no run to resume in {self.path} (no config.toml); start it without --resume")
        return load_config(self.config, overrides)

    def read_summary(self) -> dict[str, Any]:
        """The last summary written, or an empty one."""
        try:
            summary: dict[str, Any] = json.loads(self.summary.read_text(encoding="utf-8"))
        except FileNotFoundError:
            return {}
        except json.JSONDecodeError as error:
            raise RunError(
                f"{self.summary} is damaged ({error}); remove it to resume without its evaluations"
            ) from None
        return summary

    def write_summary(self, summary: Mapping[str, Any]) -> None:
        """Replace the summary in one step."""
        write_atomically(self.summary, json.dumps(summary, indent=2) + "\n")


def write_atomically(path: Path, text: str) -> None:
    """A reader, or a crash, sees the old file or the new one, never half."""
    temporary = path.with_name(f".{path.name}.new")
    with temporary.open("w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)
