"""A run's league: its population, what the learner scored against it, and the line-ups that follow from both."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from opponents.league.membership import MembershipChange, NewSnapshot
from opponents.league.results import Results
from opponents.matchmaking.curriculum import Curriculum
from opponents.matchmaking.lineup import LineupBlock, learner_of_block
from opponents.matchmaking.lineup_log import LineupLog, LineupRecord
from opponents.matchmaking.matchmaker import Matchmaker
from opponents.matchmaking.strategies import OpponentStats, make_strategy
from opponents.population.member import Member
from opponents.population.population import Population
from opponents.ratings.book import RatingBook
from opponents.ratings.game_score import GameScore
from opponents.ratings.storage import load_ratings, save_ratings
from opponents.settings import OpponentsSettings
from services.environments.diplomacy.position import POWERS
from services.inference.engine import LEARNER
from services.metrics.catalogue import key

RESULTS, CURRICULUM, RATINGS, LINEUPS = "results.json", "curriculum.json", "ratings.json", "lineups.jsonl"
PROMOTIONS = "promotions.json"

MOST_RATED = 64  # players besides the anchors


class League:
    """Draws blocks, takes in how they ended, and remembers both in the run's folder.

    Line-ups are on disk before they are played. What games taught is saved at every update and at the end; a driver
    that is killed forgets those since its last update, for they are not played again.
    """

    def __init__(
        self,
        folder: Path,
        population: Population,
        settings: OpponentsSettings,
        *,
        num_generations: int,
        until_year: int,
        seed: int,
        version: int,
        resume: bool,
    ) -> None:
        """Take up what an earlier process remembered.

        Args:
            folder: of the run.
            population: whom line-ups are drawn from; others may change it between updates.
            settings: how.
            num_generations: games of a block.
            until_year: last year of these games.
            seed: of the run.
            version: updates that the learner has made.
            resume: False forgets what a start that failed has left in the folder.

        Raises:
            PopulationError: a file is damaged, or cannot be read and written.
        """
        if not resume:
            for name in (RESULTS, CURRICULUM, RATINGS, LINEUPS, PROMOTIONS):
                (folder / name).unlink(missing_ok=True)
        self.population = population
        self._folder = folder
        self._seed = seed
        self._version = version
        self._results = Results.load(folder / RESULTS, settings.results_half_life)
        self._ratings = load_ratings(folder / RATINGS) if (folder / RATINGS).exists() else RatingBook()
        self._curriculum: Curriculum | None = None
        if settings.matchmaking == "curriculum":
            self._curriculum = Curriculum.load(folder / CURRICULUM, settings, until_year)
        self._rated_to = self._results.update  # the update that the learner's rating has drifted to
        self._go_back_to(version)
        self._membership = MembershipChange(population, settings, folder / PROMOTIONS)
        self._playing: dict[int, tuple[str, ...]] = {}  # players of the blocks that have begun, by index
        strategy = self._membership.passing_over_leaving(make_strategy(settings, self._standings(), LEARNER))
        self._matchmaker = Matchmaker(population, num_generations, seed, settings, strategy)
        self._lineups = LineupLog(folder / LINEUPS)

    def __enter__(self) -> Self:
        """Nothing to do; the files are open."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Save what was learned since the last update, and close the record of line-ups."""
        self._save()
        self._lineups.close()

    def block(self, index: int, newest_snapshot: int | None = None) -> LineupBlock:
        """The block at ``index``, as it was recorded if it ever began, else drawn now and recorded.

        Raises:
            PopulationError: as ``Matchmaker.draw`` does, or the record cannot be written.
        """
        block = self._block(index, newest_snapshot)
        self._playing[index] = tuple(dict(block.opponents).values())
        return block

    def _block(self, index: int, newest_snapshot: int | None) -> LineupBlock:
        record = self._lineups.get(index)
        if record is not None and self._can_be_seated(record):
            return self._matchmaker.with_opponents(index, record.members)
        drawn = self._matchmaker.draw(index, newest_snapshot)
        block = drawn.block
        self._lineups.write(
            LineupRecord(
                index=index,
                power=block.learner_power,
                members=dict(block.opponents),
                strategy=drawn.strategy,
                probabilities=drawn.probabilities,
                version=self._version,
                lineup=block.lineup,
            )
        )
        return block

    def members(self, block: LineupBlock) -> tuple[Member, ...]:
        """The population's members in a block, each once; also one that was retired since it was drawn."""
        ids = dict.fromkeys(member_id for _, member_id in block.opponents if member_id != LEARNER)
        return tuple(self.population[member_id] for member_id in ids)

    def record(self, block: LineupBlock, games: Sequence[GameScore]) -> list[str]:
        """Take in how a block's games ended; returns what the user should know."""
        self._playing.pop(block.index, None)
        power = block.learner_power
        for game in games:
            self._results.record(game, power)
            self._ratings.record(game)
        if self._curriculum is None or not games:
            return []
        move = self._curriculum.record(games, power, self._matchmaker.drawable())
        if move is None:
            return []
        return [f"{power} {'climbs' if move.is_up else 'steps down'} to level {move.level}: {move.opponent}"]

    def snapshot_due(self, version: int) -> NewSnapshot | None:
        """Whether the learner, which has made ``version`` updates, joins the population now, and why."""
        self._drift(version)
        return self._membership.snapshot_due(version, self._ratings)

    def change_members(self, version: int, new: NewSnapshot | None, add: Callable[[Population], object]) -> list[str]:
        """Bring the population up to an update, in one transaction; returns what the user should know.

        Args:
            version: the update that training has come to.
            new: what ``snapshot_due`` returned.
            add: puts the learner's frozen weights into the population; called if ``new`` is not None.

        Raises:
            PopulationError: the file cannot be changed, or as ``add`` does; nothing is changed then.
        """
        if new is not None:
            self._membership.remember(new)
        with self.population.transaction():
            self.population.advance_to(version)
            if new is not None:
                add(self.population)
                self._rate_snapshots(version)
            playing = {player for players in self._playing.values() for player in players}
            retired = self._membership.retire(self._ratings, playing)
        joined = [] if new is None else [f"v{version} joins the population: {new.why}"]
        return joined + retired

    def updated(self, version: int) -> dict[str, float]:
        """The learner has made ``version`` updates, and the population is of then: remember all; returns metrics."""
        self._version = version
        self._drift(version)
        self._rate_snapshots(version)
        self._forget_ratings()
        self._results.advance(version)
        self._save()
        return self.metrics()

    def metrics(self) -> dict[str, float]:
        """Of those who may be drawn now, and of the learner; keys of the catalogue."""
        values: dict[str, float] = {}
        games = self._results.games
        for member in self._matchmaker.drawable():
            if member.id in games:
                label = _label(member.id)
                values[key("entente_opponent_score", opponent=label)] = self._results.score(member.id)
                values[key("entente_opponent_games_total", opponent=label)] = float(games[member.id])
        for player in (LEARNER, *(member.id for member in self._matchmaker.drawable())):
            rating = self._ratings.rating(player)
            if rating.games:
                values[key("entente_rating", player=_label(player))] = rating.mu
                values[key("entente_rating_deviation", player=_label(player))] = rating.sigma
        retired = sum(member.retired for member in self.population.members)
        values[key("entente_population_size", state="retired")] = float(retired)
        values[key("entente_population_size", state="active")] = float(len(self.population.members) - retired)
        values[key("entente_promotions_total")] = float(self._membership.promotions)
        if self._curriculum is not None:
            for power, level in self._curriculum.levels.items():
                values[key("entente_curriculum_level", country=power)] = float(level)
        return values

    def _go_back_to(self, version: int) -> None:
        """Where a resume goes on further back, the snapshots made since are gone, and the learner is an earlier one.

        Training will make snapshots of these names anew, with other weights: what is known of the old ones is not
        theirs.
        """
        met = (*self._ratings.players, *self._results.members)
        gone = [player for player in met if player.startswith("policy/") and player not in self.population]
        self._ratings.remove(gone)
        self._results.remove(gone)
        if version < self._rated_to:
            self._ratings.drift(LEARNER, self._rated_to - version)
            self._rated_to = version

    def _drift(self, version: int) -> None:
        """The learner's rating grows less certain, once an update."""
        self._ratings.drift(LEARNER, max(0, version - self._rated_to))
        self._rated_to = max(version, self._rated_to)

    def _rate_snapshots(self, version: int) -> None:
        """What was frozen now is as strong as the learner now."""
        for member in self.population.members:
            if member.is_own_snapshot and member.version == version and member.id not in self._ratings.players:
                self._ratings.add(member.id, like=LEARNER)

    def _forget_ratings(self) -> None:
        """A game costs the square of the players rated: those that are never drawn again go first, the oldest first."""
        drawable = {member.id for member in self._matchmaker.drawable()}
        past = [player for player in self._ratings.players if player != LEARNER and player not in drawable]
        surplus = len(self._ratings.players) - MOST_RATED
        self._ratings.remove(past[: max(0, surplus)])

    def _save(self) -> None:
        self._results.save(self._folder / RESULTS)
        save_ratings(self._ratings, self._folder / RATINGS)
        if self._curriculum is not None:
            self._curriculum.save(self._folder / CURRICULUM)

    def _standings(self) -> OpponentStats:
        def opponent(power: str, members: Sequence[Member]) -> str:
            assert self._curriculum is not None, "only the curriculum asks"
            return self._curriculum.opponent(power, members)

        return OpponentStats(
            score=self._results.score,
            rating=lambda player: self._ratings.rating(player).mu,
            curriculum=opponent,
        )

    def _can_be_seated(self, record: LineupRecord) -> bool:
        """Not where a resume further back forgot a snapshot that was drawn: then there is nothing to go on with."""
        whole = set(record.members) == set(POWERS) - {learner_of_block(self._seed, record.index)}
        return whole and all(who == LEARNER or who in self.population for who in record.members.values())


def _label(player: str) -> str:
    """A player's id as metric keys can hold it."""
    return "".join("_" if mark in "{},=\n" else mark for mark in player)
