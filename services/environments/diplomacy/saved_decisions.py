"""The decisions in saved games, for a policy that imitates them or what bots find better there."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from grpo_core.errors import one_line
from grpo_core.seeds import derive_seed
from services.environments.diplomacy.bots.lookahead.lookahead import LABEL_ROUNDS, LookaheadBot
from services.environments.diplomacy.bots.lookahead.seats import Others
from services.environments.diplomacy.bots.registry import make_bot
from services.environments.diplomacy.game import DiplomacyGame
from services.environments.diplomacy.game_origin import seated_players
from services.environments.diplomacy.played_phases import played_phases
from services.environments.diplomacy.position import POWERS
from services.environments.diplomacy.rules.orders import check
from services.environments.diplomacy.saved_game import read_saved_game
from services.environments.diplomacy.settings import DiplomacyImitation
from services.environments.diplomacy.text.language import DiplomacyLanguage
from services.environments.environment import Demonstration
from services.environments.playing import Bot


def saved_decisions(settings: DiplomacyImitation, file: Path, language: DiplomacyLanguage) -> Iterator[Demonstration]:
    """The decisions in a game in the engine's saved format, of ``imitation.saved_players`` where they are named.

    Illegal orders are left out, as are powers without a legal order in a phase: they were absent, or their orders are
    in another notation. With ``imitation.relabel`` the orders are those of this bot, whose seeds follow from the file's
    name; with ``imitation.relabel_margin`` those that were given, where it finds none that are so much better. It then
    expects DumbBot and greedy where the game's record seats them, and in other seats ``imitation.against``.

    Raises SavedGameError if the file is not a saved game.
    """
    DiplomacyGame.load(file, 1999)  # checks more than its form
    document, wanted = read_saved_game(file), set(settings.saved_players)
    seated = seated_players(document)
    asked, margin = None if settings.relabel is None else make_bot(settings.relabel), settings.relabel_margin
    improver = None if margin is None else LookaheadBot(_expected(seated, settings.against), LABEL_ROUNDS)
    for phase in played_phases(document, str(file)):
        for power in phase.position.to_move:
            if wanted and seated.get(power) not in wanted:
                continue
            seed = derive_seed(0, "relabel", file.name, phase.position.phase, power)
            if asked is not None and improver is None:
                orders = asked.actions(phase.position, power, seed)
            else:
                orders = check(phase.orders.get(power, ()), phase.position, power).actions
            if orders and improver is not None and margin is not None:
                played = language.written(orders, phase.position, power)
                orders = improver.improved(phase.position, power, played, margin, seed)
            if orders:
                yield Demonstration(phase.position, power, orders, phase.position.phase)


def _expected(seated: Mapping[str, str], against: Sequence[str]) -> Others:
    """The bots that simulated games have in each seat: those that machine code knows, where they sat in the game."""
    others: list[Bot] = [make_bot(name) for name in against or ("dumbbot",)]
    known = {name: [make_bot(name)] for name in ("dumbbot", "greedy")}
    return {power: known.get(seated.get(power, ""), others) for power in POWERS}


def check_players(files: Sequence[Path], wanted: Sequence[str]) -> None:
    """Raise ValueError if one of the wanted players played none of the games."""
    played = {name for file in files for name in seated_players(read_saved_game(file)).values()}
    if missing := [name for name in wanted if name not in played]:
        known = f"their players are {', '.join(sorted(played))}" if played else "they do not say who played"
        raise ValueError(
            f"imitation.saved_players: {one_line(missing[0], 80)} played none of these games; {one_line(known, 200)}"
        )
