"""The learner actor: takes country-grouped blocks from the buffer, updates the policy, publishes its weights."""

from __future__ import annotations

import copy
import math
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import torch
from torch import nn
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from cluster.actors.audit_batch import save_last_batch
from cluster.actors.batch_collector import BatchCollector, set_aside
from cluster.actors.checkpoint_extra import read_extra
from cluster.actors.episode_check import EpisodeCheck
from cluster.actors.initial_policy import make_policy, probe_prompts
from cluster.actors.kept_games import add_judgements
from cluster.actors.learner_device import LearnerDevice
from cluster.actors.learner_group.gathering import gather_policy, save_whole_model
from cluster.actors.learner_group.meeting import check_same_software, opened
from cluster.actors.learner_group.member import Recipe, Step, check_alike, join, make_learner, node_address
from cluster.actors.learner_group.peers import Peers
from cluster.actors.learner_metrics import catalogued, episode_columns, game_length, role_intervals
from cluster.actors.messages import Shortage, UpdateReport
from cluster.actors.resume import newest_checkpoint
from cluster.configs.schema import Config
from cluster.errors import RunError
from cluster.runs.folder import RunFolder, snapshot_files
from cluster.runs.traces import write_trace
from cluster.runtime.memory import available_bytes
from grpo_core.checkpoints.atomic_write import write_atomically, writing
from grpo_core.checkpoints.folders import checkpoint_versions, prune_checkpoints
from grpo_core.checkpoints.store import Checkpoint, save_checkpoint
from grpo_core.errors import StorageError
from grpo_core.learner import Learner, UpdateResult
from grpo_core.models.fsdp import ALONE, Sharding
from grpo_core.models.lora import add_adapters, load_adapters
from grpo_core.models.pretrained import ADAPTER, load_model, plain_model, policy_payload, save_model
from grpo_core.models.role_adapters import add_role_adapters, load_role_adapters, role_adapter_payloads
from grpo_core.training.learner_state import without_moments
from grpo_core.training.memory_estimate import ModelShape, check_learner_memory, estimate_memory
from grpo_core.types import Batch, Episode, Probe
from opponents.players.llm_policy import TokenizedLanguage
from services.environments.playing import TRUNCATED
from services.metrics.rolling_windows import RoleWindows
from services.replay.buffer import Receipt, ReplayBuffer, ServerLostError
from services.weights.payload import Payload, make_payload, make_role_payload

if TYPE_CHECKING:
    from cluster.actors.learner_group.member import ProbePrompts


class LearnerWorker:
    """Owns the model, its optimizer and the consuming end of the buffer; lives in a ``LearnerActor``."""

    def __init__(
        self, config: Config, run_dir: str, buffer: ReplayBuffer, resume: bool, peers: Sequence[Any] = ()
    ) -> None:
        """Make the learner or load its newest checkpoint.

        ``peers`` are the Ray handles of the ``LearnerPeerActor``s that train the policy together with this process.
        """
        torch.set_num_threads(config.learner.threads)
        torch.manual_seed(config.run.seed)
        self._config = config
        self._measured = config.world.measured
        self._folder = RunFolder(Path(run_dir))
        self._buffer = buffer
        self._stack = ExitStack()  # closed with the process
        self._device = LearnerDevice(config.learner.gpus, shared=config.rollout.share_gpu_with_learner)
        self._collector = BatchCollector(
            buffer,
            config.rollout.num_generations,
            config.rollout.max_staleness,
            config.learner.top_up_episodes,
            self._fault,
        )
        self._check: EpisodeCheck | None = None  # once the policy is loaded
        self._windows = RoleWindows(self._measured)
        self._report: UpdateReport | None = None
        self._receipts: list[Receipt] = []  # used since the last durable checkpoint
        self._last_batch: Batch | None = None  # of this process's newest update
        self._durable: Path | None = None  # the current version's checkpoint, once it is on disk
        self._torn = False  # whether an update has begun to change the weights and is not recorded yet
        self._hurried = False
        buffer.redeliver()  # first: it refuses a second learner before anything is written
        self._peers = Peers(peers, config.learner.exchange_timeout_s)
        self._sharding = self._join()
        # The checkpoint to resume from, and how many episodes were used before the receipts above.
        checkpoint, self._used = newest_checkpoint(self._folder.path, buffer, self._measured) if resume else (None, 0)
        if checkpoint is None:
            base, self._tokenizer = self._first_weights()
            self._model = self._trained(base)
            self._learner = self._make_learner()
            self.checkpoint()
        else:
            self._restore(checkpoint)
            self._durable = checkpoint.folder
            buffer.redeliver()  # what the checkpoint used is acknowledged now

    def version(self) -> int:
        """Return the number of updates made."""
        return self._learner.version

    def publish(self) -> Payload:
        """Return the current weights for engines: of a policy with adapters only these, for specialists all of them.

        It computes a probe with them, so a GPU that is shared with an engine must be free.
        """
        with self._device.working(self._learner):
            return self._sealed()

    def collect(self, blocks: Mapping[str, int], timeout_s: float) -> Shortage:
        """Take blocks for the next update without learning yet; return which further ones would top it up.

        A restart delivers them again until an update has learned from them and its checkpoint is durable. Raises
        ReplayError if the blocks are not there within ``timeout_s``.
        """
        self._collector.take(blocks, timeout_s)
        return self._collector.shortage(self._learner)

    def update(
        self, blocks: Mapping[str, int], timeout_s: float, topped_up: Mapping[str, int] | None = None
    ) -> tuple[UpdateReport, Payload]:
        """Take blocks, learn once from all collected blocks, write a checkpoint if it is due, and publish.

        ``topped_up``: extra blocks of each country that the updates up to this one have used; the report keeps it for
        the driver after a restart.

        Raises ReplayError if the blocks are not there within ``timeout_s``; DivergenceError if the loss or gradient is
        not finite; StorageError if a file cannot be written.
        """
        collector = self._collector
        collector.take(blocks, timeout_s)
        # Asked before anything changes: the server may be away.
        buffered, memory = self._buffer.stats(), self._buffer.memory()
        taken = time.perf_counter()
        delivered = collector.episodes
        oldest = self._learner.version - self._config.rollout.max_staleness
        episodes = collector.fresh(self._learner.version)
        batch = Batch(episodes, self._learner.version)
        with self._device.working(self._learner):
            result = self._step(batch)
            payload = self._sealed()
        for episode in episodes:
            self._windows.add(episode)
        version = self._learner.version
        late = set_aside(delivered, episodes)
        audit = {
            **result.audit,
            **episode_columns(episodes, self._measured),
            "set_aside": [episode.episode_id for episode in late],
            "set_aside_lengths": [game_length(episode) for episode in late],
        }
        self._folder.write_audit(version, audit)
        with suppress(StorageError, OSError):  # these files are extra; a disk that is full says so elsewhere
            add_judgements(self._folder.games, batch, result.advantages)
            if result.trace is not None:
                write_trace(self._folder.traces, result.trace)
        figures = catalogued(result.metrics, result.audit, episodes, self._measured)
        figures |= {**self._windows.metrics(), **role_intervals(self._windows.facts(), self._measured)}
        metrics = {name: value for name, value in figures.items() if math.isfinite(value)}
        self._report = UpdateReport(
            version=version,
            metrics=metrics,
            roles={role: self._windows.summary(role) for role in self._measured.roles},
            episodes=len(episodes),
            stale_episodes=sum(episode.oldest_version < oldest for episode in delivered),
            tokens=sum(episode.tokens for episode in episodes),
            busy_s=time.perf_counter() - taken,
            defective_orders=sum(len(turn.defects) for episode in episodes for turn in episode.turns),
            truncated=sum(TRUNCATED in turn.defects for episode in episodes for turn in episode.turns),
            weight_bytes=len(payload.data),
            buffer=buffered,
            topped_up_episodes=collector.extra_episodes,
            topped_up=dict(topped_up or {}),
            role_episodes=Counter(episode.role for episode in episodes),
            memory=memory,
            nonfinite=tuple(sorted(figures.keys() - metrics.keys())),
        )
        collector.clear()
        self._torn = False
        if version % self._config.learner.checkpoint_every == 0 or version >= self._config.learner.updates:
            self.checkpoint()
        return self._report, payload

    def last_report(self) -> UpdateReport | None:
        """Return the report of the update that made the current version; None before the first update."""
        return self._report

    def checkpoint(self) -> str:
        """Write a durable checkpoint, then acknowledge the episodes it used; return its folder.

        No checkpoint is written twice: a process killed during the replacement could leave none.

        Raises RunError after an update that failed halfway.
        """
        self._check_whole()
        if self._durable is not None:
            return str(self._durable)
        if self._last_batch is not None:
            save_last_batch(self._folder, self._last_batch)
        extra = {
            # Acknowledged on resume, if the process dies before the acknowledgement below.
            "receipts": [[receipt.role, receipt.entry_id] for receipt in self._receipts],
            # Shows that the checkpoint before is too old, if this one is damaged.
            "used": self._used + len(self._receipts),
            "excused_blocks": self._collector.excused_blocks,
            "countries": self._windows.state(),
            "measures": self._windows.measures,
            # Read by the driver, if it dies before it has recorded this update.
            "report": None if self._report is None else msgspec.to_builtins(self._report),
            "config_digest": self._config.digest,
        }
        folder = self._peers.together(
            "gather_checkpoint",
            own=lambda: save_checkpoint(self._folder.path, self._learner, self._save_model, extra=extra),
        )
        self._durable = folder
        try:
            self._buffer.acknowledge(self._receipts)
        except ServerLostError:
            if not self._hurried:
                raise
            return str(folder)  # the process that resumes from it acknowledges what it used
        self._used += len(self._receipts)
        self._receipts.clear()
        with writing(self._folder.checkpoints):
            prune_checkpoints(self._folder.path, self._config.learner.keep_checkpoints)
        return str(folder)

    def hurry(self) -> None:
        """From now on, do not wait for a replay server that is away: the run ends, and saves what it has."""
        self._hurried = True
        self._buffer.hurry()

    def snapshot(self, path: str) -> int:
        """Write the weights as safetensors (``snapshot_files``), for the population; return their version.

        Raises RunError after an update that failed halfway.
        """
        self._check_whole()
        target = Path(path)
        with writing(target):
            target.parent.mkdir(parents=True, exist_ok=True)
        specialists = self._config.policy.specialists
        by_role = self._adapters_by_role() if specialists else {}
        for country, file in snapshot_files(target, self._config.world.roles if specialists else ()).items():
            data: bytes | memoryview = self._policy_payload() if country is None else by_role[country]
            write_atomically(file, data)
        return self._learner.version

    def close(self) -> None:
        """Disconnect from the buffer, and leave the other processes."""
        self._buffer.close()
        self._stack.close()

    def _fault(self, episode: Episode) -> str | None:
        """Why the policy cannot learn from an episode; None if it can."""
        if self._check is None:
            self._check = EpisodeCheck.of(self._config, plain_model(self._model).config.get_text_config().vocab_size)
        return self._check.fault(episode)

    def _sealed(self) -> Payload:
        if self._config.policy.specialists:
            roles = self._config.world.roles
            prompts: ProbePrompts = {role: self._probe_prompts([role]) for role in roles}  # its own view only
            probes, adapters = self._peers.together(
                "publish", prompts, own=lambda: (self._probes(prompts), role_adapter_payloads(self._model))
            )
            return make_role_payload(self._learner.version, {role: (adapters[role], probes[role]) for role in roles})
        shared: ProbePrompts = {None: self._probe_prompts(self._measured.roles)}
        probes, weights = self._peers.together(
            "publish", shared, own=lambda: (self._probes(shared), self._gathered_policy())
        )
        return make_payload(self._learner.version, weights, probes[None])

    def _probes(self, prompts: ProbePrompts) -> dict[str | None, Probe]:
        return {role: self._learner.probe(own, role) for role, own in prompts.items()}

    def _adapters_by_role(self) -> dict[str, bytes]:
        return self._peers.together("gather_policy", own=lambda: role_adapter_payloads(self._model))

    def _policy_payload(self) -> bytes | memoryview:
        return self._peers.together("gather_policy", own=self._gathered_policy)

    def _gathered_policy(self) -> bytes | memoryview:
        return gather_policy(self._model) if len(self._peers) else policy_payload(self._model)

    def _save_model(self, folder: Path) -> None:
        save = save_whole_model if len(self._peers) else save_model
        save(self._model, self._tokenizer, folder)

    def _step(self, batch: Batch) -> UpdateResult:
        """Learn from the collected batch on every process; until ``update`` has ended, nothing of it is saved."""
        traced = self._config.metrics.traced_tokens or None

        def learn() -> UpdateResult:
            self._torn = True
            result = self._learner.step(batch, traced)
            # At once, whatever fails later: the weights have used these episodes.
            self._last_batch, self._durable = batch, None
            self._receipts.extend(self._collector.receipts)
            return result

        result, steps = self._peers.answered("step", batch, traced, own=learn)
        check_alike(Step.of(self._learner.version, result), steps)
        return result

    def _check_whole(self) -> None:
        if self._torn:
            raise RunError(
                "the update under way failed, so the learner's weights are not saved; the last checkpoint is intact: "
                "go on with --resume"
            )

    def _join(self) -> Sharding:
        """Join the peers, if there are any, until this process ends."""
        if not len(self._peers):
            return ALONE
        start_s = self._config.rollout.start_timeout_s
        check_same_software(self._peers.wait_ready(start_s))
        host, ranks = node_address(), 1 + len(self._peers)
        meeting, store = opened(host, ranks, start_s, self._config.learner.exchange_timeout_s)
        return self._peers.together(
            "join", meeting, own=lambda: join(self._stack, meeting, store, 0, self._device.device)
        )

    def _probe_prompts(self, roles: Sequence[str]) -> list[tuple[int, ...]]:
        return probe_prompts(self._tokens, self._config.world, roles)

    @cached_property
    def _tokens(self) -> TokenizedLanguage:
        config = self._config
        return TokenizedLanguage(config.world.language, self._tokenizer, config.policy, config.inference)

    def _first_weights(self) -> tuple[PreTrainedModel, PreTrainedTokenizerBase]:
        config = self._config
        if config.imitation.wanted:
            return load_model(self._folder.imitated, getattr(torch, config.policy.dtype))
        return make_policy(config.policy, config.run.seed, config.world.language)

    def _trained(self, base: PreTrainedModel) -> nn.Module:
        """Return the model to train: the base itself, or the base with adapters."""
        settings = self._config.policy
        if settings.specialists:
            return add_role_adapters(base, settings, self._config.run.seed, self._config.world.roles)
        return add_adapters(base, settings, self._config.run.seed) if settings.use_peft else base

    def _check_memory(self) -> None:
        config = self._config
        sizes = [(value.numel(), value.nbytes, value.requires_grad) for value in self._model.parameters()]
        estimate = estimate_memory(
            ModelShape.of(self._model.config),
            config.policy,
            config.learner,
            parameters=sum(count for count, _, _ in sizes),
            trained=sum(count for count, _, trained in sizes if trained),
            free_text=config.writes_free_text,
            grouping=config.grouping,
            processes=config.learner.processes,
            on_gpu=config.learner.gpus > 0,
        )
        loaded = sum(size for _, size, _ in sizes)
        free = self._device.free_bytes(available_bytes() + loaded)
        check_learner_memory(estimate, free, config.policy, config.learner, on_gpu=config.learner.gpus > 0)

    def _make_learner(self) -> Learner:
        """Make the learner of the loaded model. Raises ResourceError if it would not fit in memory."""
        self._check_memory()
        config = self._config
        # A policy with adapters is its own reference when they are switched off.
        reference = self._first_policy() if config.learner.beta > 0 and not config.policy.use_peft else None
        if not len(self._peers):  # else one part after the other moves there
            self._device.enter(self._model)
            if reference is not None:
                self._device.enter(reference)
        recipe = Recipe.of(self._model, has_reference=reference is not None)
        learner = self._peers.together(
            "make", recipe, own=lambda: make_learner(config, self._model, reference, self._sharding)
        )
        self._device.leave(learner)
        return learner

    def _first_policy(self) -> PreTrainedModel:
        """Load the run's first weights, the reference of the KL penalty ``learner.beta``."""
        if not checkpoint_versions(self._folder.path):
            return copy.deepcopy(plain_model(self._model))
        model, _ = load_model(self._first_folder("learner.beta", "set learner.beta = 0"))
        return model

    def _first_folder(self, what: str, instead: str) -> Path:
        """Return the checkpoint of the run's first weights. Raises RunError if it is missing, and ``what`` needs it."""
        folder = self._folder.checkpoints / "0"
        if not folder.is_dir():
            raise RunError(f"{what} needs the run's first weights, and {folder} is gone; put it back, or {instead}")
        return folder

    def _restore(self, checkpoint: Checkpoint) -> None:
        folder = checkpoint.folder
        if self._config.policy.specialists:
            dtype = getattr(torch, self._config.policy.dtype)
            base, self._tokenizer = load_model(folder, dtype, shared_base=True)
            self._model = self._trained(base)
            load_role_adapters(self._model, folder / ADAPTER)
        elif self._config.policy.use_peft:
            # The base before the adapters; ``folder``'s weights have them merged.
            first = self._first_folder("policy.use_peft", f"start a new run with policy.path = {folder}")
            base, self._tokenizer = load_model(first, getattr(torch, self._config.policy.dtype))
            self._model = self._trained(base)
            load_adapters(self._model, folder / ADAPTER)
        else:
            self._model, self._tokenizer = load_model(folder)
        self._learner = self._make_learner()
        state = checkpoint.state
        self._peers.together("load_state", without_moments(state), own=lambda: self._learner.load_state(state))
        extra = read_extra(checkpoint, self._measured)
        self._windows.load_state(extra.windows, extra.measures)
        self._collector.restore_excused(extra.excused_blocks)
        self._report = extra.report
