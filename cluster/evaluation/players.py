"""From what a user names - a bot, a checkpoint, a run - to a policy that can sit at a table."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from cluster.configs.loader import load_config
from cluster.errors import RunError
from opponents.bots.registry import BOT_NAMES, make_bot
from opponents.players.chat_players import ChatPlayers
from opponents.players.policy import Decision, Policy
from opponents.settings import REMOTE_PREFIX
from services.environments.diplomacy.position import POWERS, Position

if TYPE_CHECKING:
    from services.inference.engine import Engine

MAX_COMPLETION_LENGTH = 224


def open_policy(
    name: str, remotes: ChatPlayers, *, temperature: float = 1.0, threads: int = 1, concurrent: int = 64
) -> Policy:
    """A bot by name, a checkpoint folder, a run folder (its newest checkpoint), or ``remote:NAME`` of ``remotes``.

    Raises:
        RunError: none of them; lists the bots.
        CheckpointError: the folder is not a usable checkpoint.
        EndpointError: there is no such remote, or its key is missing.
    """
    if name in BOT_NAMES:
        return make_bot(name)
    if name.startswith(REMOTE_PREFIX):
        return remotes.policy(name.removeprefix(REMOTE_PREFIX))
    path = Path(name)
    if not path.is_dir():
        raise RunError(
            f"{name!r} is neither a bot ({', '.join(BOT_NAMES)}) nor the folder of a checkpoint or run, nor remote:NAME"
        )
    # torch takes seconds to import; bots need none of it.
    from grpo_core.checkpoints.folders import MANIFEST, latest_checkpoint
    from grpo_core.checkpoints.store import load_checkpoint
    from grpo_core.models.pretrained import load_model, saved_specialists
    from opponents.players.llm_policy import LLMPolicy, OrderTokens
    from services.inference.engine import LEARNER
    from services.inference.torch_backend.engine import TorchEngine

    folder = latest_checkpoint(path) or path
    if (folder / MANIFEST).exists():
        load_checkpoint(folder)  # compares every file with its checksum
    roles = saved_specialists(folder)
    model, tokenizer = load_model(folder, shared_base=bool(roles))
    engine = TorchEngine(model, max_concurrent_decisions=concurrent, threads=threads)
    tokens = OrderTokens(tokenizer)

    def player(policy: str) -> LLMPolicy:
        return LLMPolicy(
            engine, tokens, policy=policy, temperature=temperature, max_completion_length=MAX_COMPLETION_LENGTH
        )

    return SavedSpecialists(folder, roles, engine, player) if roles else player(LEARNER)


class SavedSpecialists:
    """A checkpoint with an adapter a power: each power is played by its own, merged when it is first asked."""

    def __init__(self, folder: Path, roles: Sequence[str], engine: Engine, player: Callable[[str], Policy]) -> None:
        """Read the adapters.

        Args:
            folder: of the checkpoint, whose base the engine runs.
            roles: whose adapters are there.
            engine: takes them.
            player: makes a policy of the engine's name for one.

        Raises:
            CheckpointError: an adapter cannot be read.
            RunError: a power has none.
        """
        from grpo_core.models.lora import folder_payload
        from grpo_core.models.pretrained import ADAPTER

        missing = [power for power in POWERS if power not in roles]
        if missing:
            raise RunError(f"{folder} has specialists, but none for {', '.join(missing)}; take a whole checkpoint")
        self._payloads = {power: folder_payload(folder / ADAPTER / power) for power in POWERS}
        self._engine = engine
        self._player = player
        self._seated: dict[str, Policy] = {}

    async def act(self, position: Position, power: str, seed: int) -> Decision:
        """Orders of ``power``, by its specialist.

        Raises:
            EngineError: the adapter does not fit its base, or as ``LLMPolicy.act`` does.
        """
        if power not in self._seated:
            name = f"learner/{power}"
            await self._engine.update_weights(self._payloads[power], 0, policy=name)
            self._seated[power] = self._player(name)
        return await self._seated[power].act(position, power, seed)


def chat_players(config: str | None) -> ChatPlayers:
    """The remote players that a config describes (a file, or the name of a shipped one); none without one.

    Raises:
        ConfigError: the config cannot be read.
    """
    return ChatPlayers({} if config is None else load_config(config).opponents.remotes)


def parse_seats(seats: list[str], default: str) -> dict[str, str]:
    """``FRANCE=dumbbot`` assignments to a name for each of the seven powers.

    Raises:
        RunError: not of that form, no such power, or a power seated twice.
    """
    names = dict.fromkeys(POWERS, default)
    taken: set[str] = set()
    for seat in seats:
        power, separator, name = seat.partition("=")
        power = power.strip().upper()
        if not separator or not name.strip():
            raise RunError(f"--seat {seat!r} is not POWER=PLAYER, e.g. --seat FRANCE=dumbbot")
        if power not in names:
            raise RunError(f"--seat {seat!r}: there is no power {power!r}; the seven are {', '.join(POWERS)}")
        if power in taken:
            raise RunError(f"--seat {seat!r}: {power} is seated twice")
        taken.add(power)
        names[power] = name.strip()
    return names
