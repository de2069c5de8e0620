"""Opens a player by the name that a user gives: a bot, the champion, a checkpoint, a run or a remote player.

``lookahead:`` before a saved policy adds simulated games to every decision; ``policy:champion`` has none. ``muted:``
before any of these policies withholds its letters.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from copy import copy
from pathlib import Path
from typing import TYPE_CHECKING

from cluster.configs.loader import Source, load_config
from cluster.configs.schema import Config
from cluster.errors import RunError
from cluster.evaluation.players.members import MemberPolicy, find_member, member_name
from cluster.evaluation.players.weights import names_folder, version_of
from cluster.runs.folder import has_sampling, sampling_of
from grpo_core.checkpoints.folders import MANIFEST, checkpoint_versions, latest_checkpoint
from grpo_core.errors import one_line
from grpo_core.models.folder_files import check_files
from opponents.champion.shipped import CHAMPION, player_folder
from opponents.player_names import PROPOSAL_TEMPERATURE, player_name, with_saved
from opponents.players.chat_players import ChatPlayers
from opponents.settings import REMOTE_PREFIX
from services.environments.environment import World
from services.environments.playing import Decision, Policy, PromptedPolicy, View
from services.environments.registry import DEFAULT_WORLD, load_world
from services.inference.engine import LEARNER

SHARED = "+"  # between the names of players that share seats

if TYPE_CHECKING:
    from opponents.players.llm_policy import LLMPolicy, TokenizedLanguage
    from opponents.prompts.policy_prompt import PromptView
    from services.environments.diplomacy.settings import GameSettings
    from services.environments.diplomacy.world import Diplomacy
    from services.inference.engine import Engine
    from services.settings import InferenceSettings


def check_player(name: str, remotes: ChatPlayers, world: type[World] | None = None) -> None:
    """Check in a moment what ``open_policy`` would refuse after slow imports: the name, and a folder's files.

    Raises as ``open_policy``; damage inside the weights is found only there.
    """
    world = world or load_world(DEFAULT_WORLD)
    bot_names = world.bots
    if name in bot_names:
        return
    given = name
    name, looks_ahead, is_muted = player_name(name)
    if name != given and not _may_follow_a_prefix(name, bot_names):
        raise RunError(
            f"{one_line(given, 120)}: before the colon stands how a saved policy plays, and "
            f"{one_line(repr(name), 120)} is none"
        )
    if looks_ahead and not world.looks_ahead:
        raise RunError(f"{one_line(given, 120)} plays by simulated games, and the world {world.name} has none")
    if is_muted and not world.has_press:
        raise RunError(f"{one_line(given, 120)} writes no letters, and the world {world.name} has none")
    if name.startswith(REMOTE_PREFIX):
        remotes.check(name.removeprefix(REMOTE_PREFIX))
        return
    if (member := member_name(name)) is not None:
        find_member(*member)
        return
    path = player_folder(name)
    if not path.is_dir():
        if version_of(name) is not None and path.parent.is_dir():
            raise RunError(
                f"{one_line(repr(name), 120)} is not there any more: a run in training keeps its newest checkpoints; "
                "name one that is kept, or a larger learner.keep_checkpoints"
            )
        raise RunError(
            f"{one_line(repr(name), 120)} is neither a bot ({', '.join(bot_names)}) nor {CHAMPION} nor the folder of a "
            "checkpoint or run, nor remote:NAME, nor RUN:MEMBER of a run's population, a policy after "
            "lookahead: or muted:"
        )
    sampling_of(path)
    check_files(latest_checkpoint(path) or path)


def sharing_names(anchor: str) -> tuple[str, ...]:
    """The names of the players that share an anchor's seats: of ``dumbbot+greedy`` both, else the anchor's.

    A folder may have a plus in its name.
    """
    return (anchor,) if Path(player_name(anchor).saved).exists() else tuple(anchor.split(SHARED))


def sharing_players(anchor: str | Policy) -> tuple[str | Policy, ...]:
    """The players of ``sharing_names``, or the one that is open."""
    return sharing_names(anchor) if isinstance(anchor, str) else (anchor,)


def _may_follow_a_prefix(name: str, bot_names: Collection[str]) -> bool:
    """Whether a name may be that of a saved policy, without another prefix."""
    if not name or name in bot_names or name.startswith(REMOTE_PREFIX) or player_name(name).saved != name:
        return False
    member = member_name(name)
    return member is None or find_member(*member)[1].kind == "policy"


def newest(name: str) -> str:
    """Return the newest checkpoint's folder for a run's folder, any other name as it is.

    Who opens a player and says later what was opened asks once: a run in training writes checkpoints in between.
    """
    if not names_folder(name):
        return name
    saved = player_name(name).saved
    return with_saved(name, str(latest_checkpoint(Path(saved)) or saved))


def open_policy(
    name: str | Policy,
    remotes: ChatPlayers,
    *,
    world: World | None = None,
    temperature: float | None = None,
    evaluation: bool = False,
) -> Policy:
    """Open a bot, ``champion``, a checkpoint or run folder (its newest checkpoint), or ``remote:NAME`` of ``remotes``.

    It plays ``world``; None: the default one. ``lookahead:`` before a saved policy compares what it writes by simulated
    games; the champion does so anyway, and ``policy:champion`` does not. ``muted:`` before a saved policy withholds
    its letters.

    A player that is open already stays as it is.

    A checkpoint or an exported policy plays with its own run's prompts, decoding and completion length. Outside a run a
    model with a chat template is asked in its conversations, any other in compact notation, with the defaults else. The
    sampling temperature is ``temperature``, by default that of its run's training games or, if ``evaluation``,
    evaluation games. One that looks ahead has ``PROPOSAL_TEMPERATURE`` by default.

    Raises RunError if there is no such player, CheckpointError if the folder is not a usable checkpoint, ConfigError if
    its run's config cannot be used, EndpointError if there is no such remote player or its key is missing.
    """
    if not isinstance(name, str):
        return name
    world = world or Config().world
    check_player(name, remotes, type(world))
    if name in world.bots:
        return world.make_bot(name)
    saved, looks_ahead, is_muted = player_name(name)
    if is_muted and not world.has_press:
        raise RunError(f"{one_line(name, 120)}: these games have no letters to withhold; play them with --press")
    if looks_ahead and temperature is None:
        temperature = PROPOSAL_TEMPERATURE
    player = _open_saved(saved, remotes, world, temperature, evaluation)
    if looks_ahead:
        assert isinstance(player, PromptedPolicy)  # ``check_player`` refuses others
        player = world.looking_ahead(player)
        player = player.at(0) if temperature == 0 else player
    return world.muted(player) if is_muted else player


def _open_saved(name: str, remotes: ChatPlayers, world: World, temperature: float | None, evaluation: bool) -> Policy:
    """Open what stands behind a player's prefix."""
    if name.startswith(REMOTE_PREFIX):
        return remotes.policy(name.removeprefix(REMOTE_PREFIX))
    if (member := member_name(name)) is not None:
        return _open_member(*member, world, temperature, evaluation)
    path = player_folder(name)
    # torch takes seconds to import; bots do not need it.
    from grpo_core.checkpoints.store import load_checkpoint
    from grpo_core.models.pretrained import load_model, saved_specialists
    from grpo_core.settings import PolicySettings
    from opponents.players.llm_policy import TokenizedLanguage
    from services.inference.torch_backend.engine import TorchEngine

    config = sampling_of(path)
    check_world(name, config, world)
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
    engine, tokens = TorchEngine(model), TokenizedLanguage(world.language, tokenizer, policy, config.inference)

    def player(policy: str) -> LLMPolicy:
        return language_policy(engine, tokens, config.inference, policy, temperature)

    return SavedSpecialists(folder, roles, world.roles, engine, player) if roles else player(LEARNER)


def _open_member(run: Path, member_id: str, world: World, temperature: float | None, evaluation: bool) -> Policy:
    population, member = find_member(run, member_id)
    population.verify(member)
    if member.kind == "bot":
        return world.make_bot(member.name)
    # torch takes seconds to import; bots do not need it.
    from grpo_core.models.pretrained import load_model
    from opponents.players.llm_policy import TokenizedLanguage
    from services.inference.torch_backend.engine import TorchEngine

    config = sampling_of(run)
    check_world(str(run), config, world)
    versions = checkpoint_versions(run)
    if not versions:
        raise RunError(f"{run} has no checkpoint; the policies of its population need the model there")
    model, tokenizer = load_model(run / "checkpoints" / str(versions[0]), shared_base=True)
    engine, tokens = TorchEngine(model), TokenizedLanguage(world.language, tokenizer, config.policy, config.inference)
    if temperature is None:
        temperature = config.evaluation.temperature if evaluation else config.inference.temperature

    def player(policy: str) -> LLMPolicy:
        return language_policy(engine, tokens, config.inference, policy, temperature)

    return MemberPolicy(engine, member.id, population.weights_path(member), player)


def check_world(name: str, config: Config, world: World) -> None:
    """Raise RunError if a policy was trained in another world."""
    if config.world.name != world.name:
        raise RunError(f"{one_line(name, 120)} was trained in the world {config.world.name}, and this is {world.name}")


def name_of(player: str | Policy) -> str:
    """The name under which a player's results are shown: as it was given, or that of an open player or its class."""
    return player if isinstance(player, str) else str(getattr(player, "name", type(player).__name__))


def language_policy(
    engine: Engine,
    tokens: TokenizedLanguage,
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
    """A checkpoint with an adapter for each role, which the engine merges when the role first acts."""

    def __init__(
        self,
        folder: Path,
        saved: Sequence[str],
        roles: Sequence[str],
        engine: Engine,
        player: Callable[[str], LLMPolicy],
    ) -> None:
        """Read the adapters of a checkpoint (``folder``), whose base ``engine`` runs.

        ``saved`` are the roles that have an adapter, ``roles`` all of the world; ``player`` makes a player from the
        name of an engine's policy.

        Raises CheckpointError if an adapter cannot be read, RunError if a role has none.
        """
        from grpo_core.models.lora import folder_payload
        from grpo_core.models.pretrained import ADAPTER

        missing = [role for role in roles if role not in saved]
        if missing:
            raise RunError(f"{folder} has specialists, but none for {', '.join(missing)}; take a whole checkpoint")
        self._payloads = {role: folder_payload(folder / ADAPTER / role) for role in roles}
        self._engine = engine
        self._player = player
        self._players: dict[str, LLMPolicy] = {}
        self._temperature: float | None = None  # None: that of ``player``

    def at(self, temperature: float) -> SavedSpecialists:
        """The same specialists at another temperature; 0 is greedy."""
        other = copy(self)
        other._temperature = temperature
        return other

    def read(self, view: View, seat: str) -> PromptView:
        """The prompt of ``act``, once ``seat`` has acted."""
        return self._players[seat].read(view, seat)

    async def specialist(self, seat: str) -> LLMPolicy:
        """The policy that plays ``seat``; raises EngineError if its weights are refused."""
        if seat not in self._players:
            name = f"{LEARNER}/{seat}"
            await self._engine.update_weights(self._payloads[seat], 0, policy=name)
            self._players[seat] = self._player(name)
        player = self._players[seat]
        return player if self._temperature is None else player.at(self._temperature)

    async def act(self, view: View, seat: str, seed: int) -> Decision:
        """Act as ``seat``, by its specialist; raises EngineError as ``LLMPolicy.act`` does."""
        return await (await self.specialist(seat)).act(view, seat, seed)


def chat_players(config: Source | None, world: World | None = None) -> ChatPlayers:
    """Make the remote players of a config, given as for ``load_config``; none without a config.

    They play ``world``; None: the default one.
    """
    remotes = {} if config is None else load_config(config).opponents.remotes
    return ChatPlayers(remotes, None if world is None else world.language)


def agreeing_world(*, draw_votes: bool, press: GameSettings | None) -> Diplomacy | None:
    """Diplomacy whose players vote on draws, or write letters by the rules in ``press``; None if neither."""
    if not draw_votes and press is None:
        return None
    from services.environments.diplomacy.settings import GameSettings
    from services.environments.diplomacy.world import Diplomacy

    return Diplomacy((press or GameSettings()).model_copy(update={"draw_votes": draw_votes}))


def parse_seats(seats: list[str], default: str) -> dict[str, str]:
    """A player's name for each of the seven powers, from assignments such as ``FRANCE=dumbbot``.

    Raises RunError for an assignment of another form, an unknown power, or a power that is named twice.
    """
    from services.environments.diplomacy.position import POWERS

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
