"""The run folder ``runs/<name>/`` and its files."""

from __future__ import annotations

import fcntl
import os
import re
import secrets
import shutil
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import msgspec
from pydantic_core import to_json

from cluster.configs.loader import Overrides, dump_config, load_config, load_exported_sections, load_sections
from cluster.configs.schema import Config
from cluster.errors import RunError
from grpo_core.checkpoints.atomic_write import remove_old_drafts, write_atomically, writing
from grpo_core.errors import one_line
from grpo_core.files import read_json, read_text
from grpo_core.settings import GroupingSettings

FORMAT = 2  # of a run's records: names of metrics, audit records, summary. Runs without a ``format`` file have 1.
EXPORTED = "entente.json"  # in the folder of an exported or imitating policy: how it was made
# The run's blocks, checkpoints and buffer depend on these keys.
FIXED = ("run.name", "run.seed", "task", "policy", "rollout.num_generations", "learner.episodes_per_update")
LOCK_ATTEMPTS, LOCK_PAUSE_S = 6, 0.02  # ``in_use`` also holds the lock for a moment


_AUDIT_NAME = re.compile(r"[0-9]{1,9}\.json")
_RUN_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,199}")
_Number = Annotated[float, msgspec.Meta(ge=-1e300, le=1e300)]


class _Evaluation(msgspec.Struct):
    label: str
    checkpoint: Annotated[str, msgspec.Meta(pattern=r"^(?!checkpoints/)|^checkpoints/[0-9]{1,9}$")]
    against: str
    games: int


class _Summary(msgspec.Struct):
    """The parts of a summary with which a resumed run goes on."""

    nonfinite_updates: _Number = 0
    games: _Number = 0
    evaluations: list[_Evaluation] = []
    training: dict[str, _Number] = {}
    wall_seconds: _Number = 0


def _check_figures(row: Mapping[str, Any]) -> None:
    """Raise ValueError for a value in an evaluation's row that is of no type that the row of any world has there.

    An interval, under ``<figure>_ci95``, is null or two numbers; where it is null, its figure may be null too. Under
    ``by_<role>`` is a table of such rows by role. Everything else is a number or a text.
    """
    for name, value in row.items():
        if name.startswith("by_"):
            for cell in msgspec.convert(value, dict[str, dict[str, Any]]).values():
                _check_figures(cell)
        elif name.endswith("_ci95"):
            msgspec.convert(value, tuple[_Number, _Number] | None)
            figure = row.get(name.removesuffix("_ci95"))
            msgspec.convert(figure, _Number if value is not None else _Number | None)
        elif value is not None or f"{name}_ci95" not in row:
            msgspec.convert(value, _Number | str)


class _UsedEpisodes(msgspec.Struct):
    episodes: list[str]
    set_aside: list[str]


class RunFolder:
    """Paths of one run."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.config = path / "config.toml"  # the resolved configuration
        self.metrics = path / "metrics.jsonl"  # one JSON object for each update
        self.metrics_port = path / "metrics_port"  # of the exporter, where the config leaves it free
        self.checkpoints = path / "checkpoints"  # one folder for each durable version
        self.audit = path / "audit"  # one record for each update
        self.traces = path / "traces"  # what each update learned from, for ``entente explore``
        self.games = path / "games"
        self.imitated = path / "imitated"  # the run's first weights after imitation; its ``untrained``: before
        self.trackers = path / "trackers"  # a folder for each of ``metrics.trackers``
        self.population = path / "population.json"  # snapshots lie beside it
        self.redis = path / "redis"  # the embedded server's append-only file
        self.summary = path / "summary.json"  # the run's results, a stable contract
        self._run_id = path / "run_id"
        self._format = path / "format"

    @property
    def run_id(self) -> str:
        """The run's unique name in a shared replay server, so that runs of one name never mix."""
        found = self._text(self._run_id)
        if not _RUN_ID.fullmatch(found):
            raise RunError(f"{self._run_id} is damaged: it does not hold the name that the run was given")
        return found

    @property
    def begun(self) -> bool:
        """Whether the folder has a run that can be resumed: one with a whole checkpoint."""
        return any(self.checkpoints.glob("*/manifest.json"))

    def open(self, config: Config, *, resume: bool) -> None:
        """Begin a new run, or continue the one in the folder, which this process must hold (``held``).

        Raises RunError if there is a run already, none to resume, or one of another format; StorageError if the folder
        cannot be written.
        """
        started = self.begun
        if not resume and started:
            raise RunError(f"{self.path} already holds a run; go on with --resume, or choose another --run-dir")
        if resume:
            self._check_can_resume()
        with writing(self.path):
            if not started:
                self._clear_false_start()
            for folder in (self.path, self.checkpoints, self.audit, self.games):
                folder.mkdir(parents=True, exist_ok=True)
            remove_old_drafts(self.path)
            if not self._run_id.exists():
                write_atomically(self._format, f"{FORMAT}\n".encode())
                write_atomically(self._run_id, f"{config.run.name}-{secrets.token_hex(4)}\n".encode())
            write_atomically(self.config, dump_config(config).encode(), mode=0o600)  # it may hold a server's password

    @contextmanager
    def held(self) -> Iterator[None]:
        """Keep other processes out of the folder inside the block; the lock ends with the process in any case.

        Raises RunError if another process holds it, StorageError if the folder cannot be made.
        """
        with writing(self.path):
            self.path.mkdir(parents=True, exist_ok=True)
            file = (self.path / ".lock").open("w")
        with file:
            for left in reversed(range(LOCK_ATTEMPTS)):
                try:
                    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                except OSError:
                    if not left:
                        message = f"another process is training in {self.path}; wait for it or stop it first"
                        raise RunError(message) from None
                    time.sleep(LOCK_PAUSE_S)
            yield

    def in_use(self) -> bool:
        """Whether a process is training in the folder."""
        try:
            with (self.path / ".lock").open("r") as file:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except FileNotFoundError:
            return False
        except OSError:
            return True
        return False

    def _clear_false_start(self) -> None:
        """Remove the files of a start that failed before its first checkpoint."""
        for path in (self.metrics, self.population, self._run_id, self._format, self.summary):
            path.unlink(missing_ok=True)
        shutil.rmtree(self.redis, ignore_errors=True)
        shutil.rmtree(self.audit, ignore_errors=True)
        shutil.rmtree(self.traces, ignore_errors=True)
        shutil.rmtree(self.trackers, ignore_errors=True)

    def stored_config(self, overrides: Overrides = ()) -> Config:
        """Load the run's configuration, with ``overrides`` as for ``load_config``.

        Raises RunError if there is no run or one of another format, ConfigError if a value cannot be used.
        """
        if not self.config.exists():
            raise RunError(f"no run in {self.path} (no config.toml); name the folder of a run, e.g. runs/demo")
        self.check_format()
        return load_config(self.config, overrides)

    def check_format(self) -> None:
        """Raise RunError for a run whose records have another format."""
        if not self._run_id.exists():
            return
        written = self._text(self._format) if self._format.exists() else "1"
        if written != str(FORMAT):
            raise RunError(
                f"the run in {self.path} has format {one_line(written, 20)}, and this version of Entente reads and "
                f"continues runs of format {FORMAT}; use the version that wrote it, or start a new run"
            )

    def _text(self, path: Path) -> str:
        """Read a file of one word. Raises RunError if it is missing or damaged."""
        try:
            return read_text(path, 4096).strip()
        except OSError as error:
            raise RunError(f"{path} cannot be read: {error.strerror}") from error
        except ValueError:
            raise RunError(f"{path} is damaged: it is no text") from None

    def resumed_config(self, overrides: Overrides) -> Config:
        """Load the configuration of the run to resume, with ``overrides`` as for ``load_config``.

        Raises RunError if there is no run, or a change contradicts stored data.
        """
        self._check_can_resume()
        changed = load_config(self.config, overrides)
        self.check_resumable(changed)
        return changed

    def _check_can_resume(self) -> None:
        if not self.config.exists():
            raise RunError(f"no run to resume in {self.path} (no config.toml); start one, without --resume")
        self.check_format()

    def check_resumable(self, changed: Config) -> None:
        """Raise RunError for a configuration that contradicts the run's stored data, with the key that does."""
        stored = self.stored_config()
        for name in FIXED:
            section, _, key = name.partition(".")
            ours, theirs = getattr(stored, section), getattr(changed, section)
            if (getattr(ours, key) != getattr(theirs, key)) if key else (ours != theirs):
                raise RunError(f"{name} cannot change when a run is resumed: its stored data depend on it")
        if stored.world.roles != changed.world.roles:
            raise RunError(f"the {stored.world.role_name}s cannot change when a run is resumed: its blocks rotate them")
        # A server may move, or be reached in another way; ``BlockSchedule`` checks that it has this run's episodes.
        ours, theirs = stored.redis, changed.redis
        if bool(ours.external) != bool(theirs.external):
            named = "servers that redis.urls named" if ours.urls else "server that redis.url named"
            where = f"on the {named}" if ours.external else f"in {self.redis}"
            raise RunError(f"redis.url cannot be set or unset when a run is resumed: its episodes are {where}")
        if ours.count != theirs.count:
            raise RunError(
                f"the number of replay servers cannot change when a run is resumed: its episodes are on {ours.count}, "
                f"and the configuration names {theirs.count}"
            )

    def read_summary(self) -> dict[str, Any]:
        """Read the last summary, or return an empty one. Raises RunError if it is damaged."""
        try:
            summary: dict[str, Any] = read_json(self.summary)
            msgspec.convert(summary, _Summary)
            for row in summary.get("evaluations", ()):
                _check_figures(row)
        except FileNotFoundError:
            return {}
        except (OSError, ValueError) as error:  # msgspec's errors are ValueErrors
            message = f"{self.summary} is damaged ({one_line(error, 200)}); remove it to resume without its evaluations"
            raise RunError(message) from None
        return summary

    def write_summary(self, summary: Mapping[str, Any]) -> None:
        """Replace the summary in one step. Raises StorageError if it cannot be written."""
        write_atomically(self.summary, strict_json(summary, indent=2) + b"\n")

    def write_audit(self, version: int, record: Mapping[str, Any]) -> None:
        """Write the record of the update that made ``version``. Raises StorageError if it cannot be written."""
        with writing(self.audit):
            self.audit.mkdir(exist_ok=True)
        write_atomically(self.audit / f"{version:06d}.json", strict_json(record))


def strict_json(document: Any, indent: int | None = None) -> bytes:
    """Return JSON with null for numbers that are not finite: NaN and Infinity, which Python writes, are not JSON."""
    return to_json(document, indent=indent, inf_nan_mode="null")


def last_update(run_dir: Path) -> int:
    """Return the newest update with an audit record; after a restart, updates since the checkpoint are made again."""
    return max((int(file.stem) for file in _audit_files(run_dir)), default=0)


def grouping_in_force(run_dir: Path, grouping: GroupingSettings, version: int) -> GroupingSettings:
    """The settings with the keys that the update to ``version`` had, where a run chooses them.

    They are what its audit record says; without one they stay those to choose among.
    """
    record = audits(run_dir).get(version) if grouping.chooses_keys else None
    return grouping if record is None else grouping.model_copy(update={"keys": tuple(record["keys"])})


def audits(run_dir: Path) -> dict[int, dict[str, Any]]:
    """Read the audit records by the version that their update made, in order. Raises RunError if one is damaged."""
    return {int(file.stem): _audit(file) for file in _audit_files(run_dir)}


def _audit_files(run_dir: Path) -> list[Path]:
    return sorted(path for path in (run_dir / "audit").glob("*.json") if _AUDIT_NAME.fullmatch(path.name))


def _audit(path: Path) -> dict[str, Any]:
    try:
        record: dict[str, Any] = read_json(path)
        if not isinstance(record, dict):
            raise ValueError("it is no table")
    except (OSError, ValueError) as error:
        raise RunError(f"{path} is no audit record: {one_line(error, 200)}") from None
    return record


def episodes_used(run_dir: Path) -> Counter[str]:
    """Count how often each episode was used for the newest policy, or left out because it came too late.

    Raises RunError if a record is damaged.
    """
    try:
        records = [msgspec.convert(record, _UsedEpisodes) for record in audits(run_dir).values()]
    except ValueError as error:  # msgspec's errors are ValueErrors
        raise RunError(f"{run_dir}: a record in audit/ names no episodes: {one_line(error, 200)}") from None
    return Counter(name for record in records for name in (*record.episodes, *record.set_aside))


def config_of(folder: Path) -> Config:
    """Load the config of the run to which a run, checkpoint or imitated folder belongs; otherwise the defaults.

    Raises RunError if the run has another format, ConfigError if its config.toml cannot be used.
    """
    run = _run_of(folder)
    return Config() if run is None else run.stored_config()


def sampling_of(folder: Path) -> Config:
    """Load ``policy``, ``inference`` and ``evaluation`` as ``config_of`` does, also of a run of another format.

    An exported policy has these sections of its run. Else: the defaults. Raises ConfigError if they cannot be used.
    """
    names = ("game", "policy", "inference", "evaluation")
    if (folder / EXPORTED).is_file():
        return load_exported_sections(folder / EXPORTED, *names)
    run = _run_of(folder)
    return Config() if run is None else load_sections(run.config, *names)


def has_sampling(folder: Path) -> bool:
    """Whether ``sampling_of`` loads the config of a run, and not the defaults."""
    return (folder / EXPORTED).is_file() or _run_of(folder) is not None


def _run_of(folder: Path) -> RunFolder | None:
    """Find the run of a folder; a config.toml without a run id, which any project may have, makes no run."""
    folder = folder.absolute()
    runs = map(RunFolder, (folder, *folder.parents[:2]))
    return next((run for run in runs if run.config.exists() and (run.path / "run_id").exists()), None)


def snapshot_files(path: Path, specialists: Sequence[str]) -> dict[str | None, Path]:
    """Name the files of a snapshot: ``path`` for None, or one file for each specialist's role beside it."""
    if not specialists:
        return {None: path}
    return {role: path.with_name(f"{path.stem}-{role}{path.suffix}") for role in specialists}


def check_writable(path: Path) -> None:
    """Check before long work that its result can be written. Raises RunError if it cannot."""
    if not path.parent.is_dir():
        raise RunError(f"cannot write {path}: there is no folder {path.parent}")
    if path.is_dir():
        raise RunError(f"cannot write {path}: it is a folder")
    if not os.access(path if path.exists() else path.parent, os.W_OK):
        raise RunError(f"cannot write {path}: permission denied")
