"""Opens a player by the name that a user gives: a bot, a checkpoint, a run or a remote player."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from cluster.configs.loader import Source, load_config
from cluster.errors import RunError
from cluster.runs.folder import has_sampling, sampling_of
from grpo_core.checkpoints.folders import MANIFEST, latest_checkpoint
from grpo_core.errors import one_line
from grpo_core.models.folder_files import check_files
from opponents.bots.registry import BOT_NAMES, make_bot
from opponents.players.chat_players import ChatPlayers
from opponents.players.policy import Decision, Policy
from opponents.settings import REMOTE_PREFIX
from services.environments.diplomacy.position import POWERS, Position
from services.inference.engine import LEARNER

if TYPE_CHECKING:
    from opponents.players.llm_policy import LLMPolicy, OrderTokens
    from opponents.prompts.policy_prompt import PromptView
    from services.inference.engine import Engine
    from services.settings import InferenceSettings


def check_player(name: str, remotes: ChatPlayers) -> None:
    """Check in a moment what ``open_policy`` would refuse after slow imports: the name, and a folder's files.

    Raises as ``open_policy``; damage inside the weights is found only there.
    """
    if name in BOT_NAMES:
        return
    if name.startswith(REMOTE_PREFIX):
        remotes.check(name.removeprefix(REMOTE_PREFIX))
        return
    path = Path(name)
    if not path.is_dir():
        raise RunError(
            f"{one_line(repr(name), 120)} is neither a bot ({', '.join(BOT_NAMES)}) nor the folder of a checkpoint or "
            "run, nor remote:NAME"
        )
    sampling_of(path)
    check_files(latest_checkpoint(path) or path)


def newest(name: str) -> str:
    """Return the newest checkpoint's folder for a run's folder, any other name as it is.

    Who opens a player and says later what was opened asks once: a run in training writes checkpoints in between.
    """
    if name in BOT_NAMES or name.startswith(REMOTE_PREFIX):
        return name
    return str(latest_checkpoint(Path(name)) or name)


def open_policy(
    name: str | Policy, remotes: ChatPlayers, *, temperature: float | None = None, evaluation: bool = False
) -> Policy:
    """Open a bot, a checkpoint folder, a run folder (its newest checkpoint), or ``remote:NAME`` of ``remotes``.

    A player that is open already stays as it is.

    A checkpoint or an exported policy plays with its own run's prompts, decoding and completion length. Outside a run a
    model with a chat template is asked in its conversations, any other in compact notation, with the defaults else. The
    sampling temperature is ``temperature``, by default that of its run's training games or, if ``evaluation``,
    evaluation games.

    Raises RunError if there is no such player, CheckpointError if the folder is not a usable checkpoint, ConfigError if
    its run's config cannot be used, EndpointError if there is no such remote player or its key is missing.
    """
    if not isinstance(name, str):
        return name
    check_player(name, remotes)
    if name in BOT_NAMES:
        return make_bot(name)
    if name.startswith(REMOTE_PREFIX):
        return remotes.policy(name.removeprefix(REMOTE_PREFIX))
    path = Path(name)
    # torch takes seconds to import; bots do not need it.
    from grpo_core.checkpoints.store import load_checkpoint
    from grpo_core.models.pretrained import load_model, saved_specialists
    from grpo_core.settings import PolicySettings
    from opponents.players.llm_policy import OrderTokens
    from services.inference.torch_backend.engine import TorchEngine

    config = sampling_of(path)
    if temperature is None:
        temperature = config.evaluation.temperature if evaluation else config.inference.temperature
    folder = latest_checkpoint(path) or path
    if (folder / MANIFEST).exists():
        load_checkpoint(folder)  # compares every file with its checksum
    roles = saved_specialists(folder)
    model, tokenizer = load_model(folder, shared_base=bool(roles))
    policy = config.policy
    if not has_sampling(path):  # a language model as it was published
        policy = PolicySettings(
            prompt="chat" if tokenizer.chat_template else "notation",
            context_length=max(model.config.max_position_embeddings, 128),
        )
    engine, tokens = TorchEngine(model), OrderTokens(tokenizer, policy, config.inference)

    def player(policy: str) -> LLMPolicy:
        return language_policy(engine, tokens, config.inference, policy, temperature)

    return SavedSpecialists(folder, roles, engine, player) if roles else player(LEARNER)


def name_of(player: str | Policy) -> str:
    """The name under which a player's results are shown: as it was given, or that of an open player or its class."""
    return player if isinstance(player, str) else str(getattr(player, "name", type(player).__name__))


def language_policy(
    engine: Engine,
    tokens: OrderTokens,
    settings: InferenceSettings,
    policy: str = LEARNER,
    temperature: float | None = None,
) -> LLMPolicy:
    """Make a player that samples from an engine's policy with a run's settings, or with another temperature."""
    from opponents.players.llm_policy import LLMPolicy

    return LLMPolicy(
        engine,
        tokens,
        policy=policy,
        decoding=settings.decoding,
        temperature=settings.temperature if temperature is None else temperature,
        max_completion_length=settings.max_completion_length,
    )


class SavedSpecialists:
    """A checkpoint with an adapter for each power, which the engine merges when the power first acts."""

    def __init__(self, folder: Path, roles: Sequence[str], engine: Engine, player: Callable[[str], LLMPolicy]) -> None:
        """Read the adapters of a checkpoint (``folder``), whose base ``engine`` runs.

        ``roles`` are the powers that have an adapter; ``player`` makes a player from the name of an engine's policy.

        Raises CheckpointError if an adapter cannot be read, RunError if a power has none.
        """
        from grpo_core.models.lora import folder_payload
        from grpo_core.models.pretrained import ADAPTER

        missing = [power for power in POWERS if power not in roles]
        if missing:
            raise RunError(f"{folder} has specialists, but none for {', '.join(missing)}; take a whole checkpoint")
        self._payloads = {power: folder_payload(folder / ADAPTER / power) for power in POWERS}
        self._engine = engine
        self._player = player
        self._players: dict[str, LLMPolicy] = {}

    def read(self, position: Position, power: str) -> PromptView:
        """The prompt of ``act``, once ``power`` has acted."""
        return self._players[power].read(position, power)

    async def act(self, position: Position, power: str, seed: int) -> Decision:
        """Orders of ``power``, by its specialist; raises EngineError as ``LLMPolicy.act`` does."""
        if power not in self._players:
            name = f"{LEARNER}/{power}"
            await self._engine.update_weights(self._payloads[power], 0, policy=name)
            self._players[power] = self._player(name)
        return await self._players[power].act(position, power, seed)


def chat_players(config: Source | None) -> ChatPlayers:
    """Make the remote players of a config, given as for ``load_config``; none without a config."""
    return ChatPlayers({} if config is None else load_config(config).opponents.remotes)


def parse_seats(seats: list[str], default: str) -> dict[str, str]:
    """A player's name for each of the seven powers, from assignments such as ``FRANCE=dumbbot``.

    Raises RunError for an assignment of another form, an unknown power, or a power that is named twice.
    """
    names: dict[str, str] = {}
    for seat in seats:
        power, _, name = seat.partition("=")
        power = power.strip().upper()
        if not name.strip():
            raise RunError(f"--seat {seat!r} is not POWER=PLAYER, e.g. --seat FRANCE=dumbbot")
        if power not in POWERS:
            raise RunError(f"--seat {seat!r}: there is no power {power!r}; the seven are {', '.join(POWERS)}")
        if power in names:
            raise RunError(f"--seat {seat!r}: {power} is seated twice")
        names[power] = name.strip()
    return {**dict.fromkeys(POWERS, default), **names}
