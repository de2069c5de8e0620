"""The format of a scenario, and what is checked of it without the game's engine."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Any, Literal, get_args

from pydantic import AfterValidator, Field, StringConstraints, model_validator

from grpo_core.errors import EntenteError
from grpo_core.section import Settings, Texts
from services.environments.diplomacy.bots.registry import BOT_NAMES
from services.environments.diplomacy.position import CENTERS_TO_WIN, POWERS

Family = Literal["opening", "alliance", "crisis", "endgame"]
FAMILIES: tuple[Family, ...] = get_args(Family)
MOST_YEARS = 20  # of a scenario
LOYAL = "loyal:"  # before a bot's name, as a player: a bot that keeps to its partner in alliances

_UNIT = re.compile(r"[AF] [A-Z]{3}(/[A-Z]{2})?")
_PROVINCE = re.compile(r"[A-Z]{3}")
_Phase = Annotated[str, StringConstraints(pattern=r"^([SF][0-9]{4}[MR]|W[0-9]{4}A)$")]
_Id = Annotated[str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9_-]{0,79}$")]
_Line = Annotated[str, StringConstraints(min_length=1)]


def _is_power(name: str) -> str:
    if name not in POWERS:
        raise ValueError(f"there is no power {name[:40]!r}; the seven are {', '.join(POWERS)}")
    return name


Power = Annotated[str, AfterValidator(_is_power)]


class ScenarioError(EntenteError, ValueError):
    """A scenario cannot be found, read or set up; the message is one line with the file and the reason."""


class Other(Settings):
    """How another power plays in ``entente scenarios run``: a bot, scripted orders, and promises to the country."""

    plays: str = Field("dumbbot", description="The bot that decides whatever the lines below leave open")
    orders: dict[_Phase, Texts] = Field(
        default_factory=dict, description="Orders by phase that it gives where they are legal, before its promises"
    )
    stays_out_of: Texts = Field((), description="Provinces that it does not enter")
    spares: Texts = Field((), description="Powers whose units and centres it does not attack")
    supports: Literal["never", "returned", "always"] = Field(
        "never",
        description="Whether its idle units support the country; returned: only after a movement phase in which the "
        "country supported it",
    )
    into: Texts = Field(
        (), description="Provinces that it leaves to the country, and into which it supports it first of all"
    )
    until: _Phase | None = Field(None, description="The phase from which its promises no longer hold")
    forgives: bool = Field(False, description="Whether its promises outlast an attack by a power that it spares")

    @model_validator(mode="after")
    def _is_known(self) -> Other:
        if self.plays not in BOT_NAMES:
            raise ValueError(f"no bot is called {self.plays!r}; there are {', '.join(BOT_NAMES)}")
        for name in self.spares:
            _is_power(name)
        _check_provinces((*self.stays_out_of, *self.into))
        return self


class ScoreSettings(Settings):
    """What the family's score needs besides the position; ``scores`` has the meaning."""

    goal: int | None = Field(
        None,
        ge=1,
        le=CENTERS_TO_WIN,
        description="Centres that count as all that can be asked: of the country (opening), or gained by both "
        "allies (alliance)",
    )
    provinces: Texts = Field((), description="Provinces to reach (opening), or centres to keep (crisis, endgame)")
    partner: Power | None = Field(None, description="The ally (alliance)")
    aim: Literal["win", "hold", "stop"] | None = Field(None, description="What is to be done (endgame)")
    leader: Power | None = Field(None, description="The power to be stopped (endgame)")

    @property
    def given(self) -> set[str]:
        """The names of the keys that have a value."""
        return {name for name in type(self).model_fields if getattr(self, name) not in (None, ())}


_NEEDED: Mapping[str, set[str]] = {
    "opening": {"goal", "provinces"},
    "alliance": {"goal", "partner"},
    "crisis": {"provinces"},
    "win": {"aim"},
    "hold": {"aim", "provinces"},
    "stop": {"aim", "leader"},
}


class Scenario(Settings):
    """A position with a task for one country. ``from_file`` in ``files`` reads it, with one-line errors."""

    id: _Id
    title: _Line
    family: Family
    country: Power
    phase: _Phase = Field(description="The phase in which it begins")
    horizon: _Phase = Field(description="The last phase that is played, adjustments of a W phase included")
    task: _Line = Field(description="What the country is to do, as told to language models")
    notes: _Line = Field(description="Where the position comes from, and what good play is")
    units: dict[Power, Texts]
    centers: dict[Power, Texts]
    retreats: dict[Power, dict[str, Texts]] = Field(
        default_factory=dict, description="In a retreat phase: dislodged unit -> places to which it may go"
    )
    score: ScoreSettings
    default: str = Field("dumbbot", description="The bot of powers that have no table in others")
    others: dict[Power, Other] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _fits_together(self) -> Scenario:
        _check_position(self)
        if phase_number(self.horizon) < phase_number(self.phase):
            raise ValueError(f"horizon: {self.horizon} is before the first phase, {self.phase}")
        if self.year - int(self.phase[1:5]) > MOST_YEARS:
            raise ValueError(f"horizon: {self.horizon} is more than {MOST_YEARS} years after {self.phase}")
        if self.default not in BOT_NAMES:
            raise ValueError(f"default: no bot is called {self.default!r}; there are {', '.join(BOT_NAMES)}")
        if self.country in self.others:
            raise ValueError(f"others: {self.country} is the country that is tested, so nothing plays it")
        _check_score(self)
        return self

    @property
    def year(self) -> int:
        """The year of the horizon."""
        return int(self.horizon[1:5])

    def state(self) -> dict[str, Any]:
        """The position in the form of ``DiplomacyGame.state``."""
        units = {power: [*self.units.get(power, ()), *self._dislodged(power)] for power in POWERS}
        retreats = {
            power: {unit: list(places) for unit, places in self.retreats.get(power, {}).items()} for power in POWERS
        }
        centers = {power: list(self.centers.get(power, ())) for power in POWERS}
        return {"name": self.phase, "units": units, "retreats": retreats, "centers": centers}

    def _dislodged(self, power: Power) -> list[str]:
        return [f"*{unit}" for unit in self.retreats.get(power, {})]


def phase_number(phase: str) -> tuple[int, int, int]:
    """A key by which short phase names sort in the order of play."""
    return int(phase[1:5]), "SFW".index(phase[0]), "MRA".index(phase[-1])


def _check_provinces(names: Texts) -> None:
    for name in names:
        if not _PROVINCE.fullmatch(name):
            raise ValueError(f"{name!r} is no province such as BUR, without a coast")


def _check_position(scenario: Scenario) -> None:
    units = [unit for own in scenario.units.values() for unit in own]
    for unit in (*units, *(unit for own in scenario.retreats.values() for unit in own)):
        if not _UNIT.fullmatch(unit):
            raise ValueError(f"units: {unit!r} is no unit such as A PAR or F STP/SC")
    places = [unit[2:5] for unit in units]
    owned = [center for own in scenario.centers.values() for center in own]
    _check_provinces(tuple(owned))
    for key, names in (("units", places), ("centers", owned)):
        if twice := {name for name in names if names.count(name) > 1}:
            raise ValueError(f"{key}: {min(twice)} is there twice")
    for power in POWERS:
        count, centers = len(scenario.units.get(power, ())), len(scenario.centers.get(power, ()))
        if scenario.phase[-1] == "M" and count > centers:
            raise ValueError(f"units: {power} has {count} units and {centers} centres, which cannot feed them")
        if centers >= CENTERS_TO_WIN:
            raise ValueError(f"centers: {power} has {centers} and has won already")
    if scenario.retreats and scenario.phase[-1] != "R":
        raise ValueError(f"retreats: there are none in {scenario.phase}")


def _check_score(scenario: Scenario) -> None:
    score = scenario.score
    if scenario.family == "endgame" and score.aim is None:
        raise ValueError("score.aim: an endgame has an aim: win, hold or stop")
    needed = _NEEDED[score.aim or "win" if scenario.family == "endgame" else scenario.family]
    if lacking := needed - score.given:
        raise ValueError(f"score.{min(lacking)}: the family {scenario.family} needs it")
    if surplus := score.given - needed:
        raise ValueError(f"score.{min(surplus)}: the family {scenario.family} does not use it")
    _check_provinces(score.provinces)
    own = scenario.centers.get(scenario.country, ())
    if scenario.country in (score.partner, score.leader):
        raise ValueError(f"score: {scenario.country} is the country that is tested, not its own partner or leader")
    if score.goal is not None and score.goal <= len(own) and scenario.family == "opening":
        raise ValueError(f"score.goal: {scenario.country} has {len(own)} centres already")
    keeps = scenario.family == "crisis" or score.aim == "hold"
    if keeps and (foreign := set(score.provinces) - set(own)):
        raise ValueError(f"score.provinces: {min(foreign)} is no centre of {scenario.country}, so it cannot keep it")
    if score.leader is not None and len(scenario.centers.get(score.leader, ())) < CENTERS_TO_WIN // 2:
        raise ValueError(f"score.leader: {score.leader} has too few centres to be stopped")
