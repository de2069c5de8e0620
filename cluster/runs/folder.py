"""The run on disk: ``runs/<name>/`` and what lies in it."""

from __future__ import annotations

import fcntl
import json
import os
import secrets
import shutil
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cluster.configs.loader import dump_config, load_config
from cluster.configs.schema import Config
from cluster.errors import RunError
from grpo_core.checkpoints.atomic_write import write_atomically
from services.environments.diplomacy.position import POWERS

# What a run's blocks, checkpoints and buffer are made from.
FIXED = ("run.name", "run.seed", "policy", "rollout.num_generations", "learner.episodes_per_update")
LOOKS, LOOK_S = 6, 0.02  # at a lock that is held: ``in_use`` holds it for a moment, and that is nobody who trains


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
    def imitated(self) -> Path:
        """The policy that imitation made, where the run's first weights come from; ``untrained`` in it is before."""
        return self.path / "imitated"

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

    @property
    def begun(self) -> bool:
        """Whether a run is here that can be resumed: it has a whole checkpoint."""
        return any(self.checkpoints.glob("*/manifest.json"))

    def open(self, config: Config, *, resume: bool) -> None:
        """Begin a new run, or go on with the one that is here.

        The folder must be held (``held``) by this process.

        Raises:
            RunError: there is a run already (or none to resume), or the folder cannot be written.
        """
        started = self.begun
        if not resume and started:
            raise RunError(
                f"{self.path} already holds a run; add --resume to go on with it, or choose another --run-dir"
            )
        if resume and not self.config.exists():
            raise RunError(f"no run to resume in {self.path} (no config.toml); start it without --resume")
        try:
            if not started:
                self._clear_false_start()
            for folder in (self.path, self.checkpoints, self.audit, self.games):
                folder.mkdir(parents=True, exist_ok=True)
            if not (self.path / "run_id").exists():
                write_atomically(self.path / "run_id", f"{config.run.name}-{secrets.token_hex(4)}\n".encode())
            write_atomically(self.config, dump_config(config).encode(), mode=0o600)  # it may hold a server's password
        except OSError as error:
            raise RunError(f"cannot write the run folder {self.path}: {error.strerror}") from error

    @contextmanager
    def held(self) -> Iterator[None]:
        """Keep other processes out of the folder while the block runs; the lock goes with the process, however it ends.

        Raises:
            RunError: another process holds it, or the folder cannot be made.
        """
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            file = (self.path / ".lock").open("w")
        except OSError as error:
            raise RunError(f"cannot write the run folder {self.path}: {error.strerror}") from error
        with file:
            for left in reversed(range(LOOKS)):
                try:
                    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                except OSError:
                    if not left:
                        raise RunError(
                            f"another process is training in {self.path}; wait for it or stop it first"
                        ) from None
                    time.sleep(LOOK_S)
            yield

    def in_use(self) -> bool:
        """Whether a process is training here right now."""
        try:
            with (self.path / ".lock").open("r") as file:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except FileNotFoundError:
            return False
        except OSError:
            return True
        return False

    def _clear_false_start(self) -> None:
        """What a start that failed before its first checkpoint left behind is no run."""
        for path in (self.metrics, self.population, self.path / "run_id", self.summary):
            path.unlink(missing_ok=True)
        shutil.rmtree(self.redis, ignore_errors=True)
        shutil.rmtree(self.audit, ignore_errors=True)

    def resumed_config(self, overrides: Sequence[str]) -> Config:
        """The configuration of the run to resume, with ``section.key=value`` changes.

        Raises:
            RunError: there is no run here, or a change would contradict what the run has stored.
        """
        if not self.config.exists():
            raise RunError(f"no run to resume in {self.path} (no config.toml); start it without --resume")
        changed = load_config(self.config, overrides)
        self.check_resumable(changed)
        return changed

    def check_resumable(self, changed: Config) -> None:
        """Refuse a configuration that contradicts what the run has stored.

        Raises:
            RunError: names the key.
        """
        stored = load_config(self.config)
        for name in FIXED:
            section, _, key = name.partition(".")
            ours, theirs = getattr(stored, section), getattr(changed, section)
            if (getattr(ours, key) != getattr(theirs, key)) if key else (ours != theirs):
                raise RunError(f"{name} cannot change when a run is resumed: what it has stored depends on it")
        # A server may move, or be reached in another way; whether it has this run's episodes, ``BlockSchedule`` finds.
        if (stored.redis.url is None) != (changed.redis.url is None):
            where = f"in {self.redis}" if stored.redis.url is None else "on the server that redis.url named"
            raise RunError(f"redis.url cannot be set or unset when a run is resumed: its episodes are {where}")

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
        write_atomically(self.summary, json.dumps(summary, indent=2).encode() + b"\n")


def snapshot_files(path: Path, config: Config) -> dict[str | None, Path]:
    """The files of a snapshot: ``path`` itself (of no country), or beside it one of each country's specialist."""
    if not config.policy.specialists:
        return {None: path}
    return {power: path.with_name(f"{path.stem}-{power}{path.suffix}") for power in POWERS}


def check_writable(path: Path) -> None:
    """Find out before long work whether a result can be written.

    Raises:
        RunError: the folder is missing, or the path is a folder or not writable.
    """
    if not path.parent.is_dir():
        raise RunError(f"cannot write {path}: there is no folder {path.parent}")
    if path.is_dir():
        raise RunError(f"cannot write {path}: it is a folder")
    if not os.access(path if path.exists() else path.parent, os.W_OK):
        raise RunError(f"cannot write {path}: permission denied")
