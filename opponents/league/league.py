"""A run's league: its population, the learner's results against it, and the line-ups that follow from both."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Self

from grpo_core.errors import StorageError
from opponents.league.membership import MembershipChange, NewSnapshot
from opponents.league.results import Results
from opponents.league.saved_starts import load_starts, save_starts
from opponents.matchmaking.curriculum import Curriculum
from opponents.matchmaking.lineup import LineupBlock
from opponents.matchmaking.lineup_log import LineupLog, LineupRecord
from opponents.matchmaking.matchmaker import Matchmaker
from opponents.matchmaking.strategies import OpponentStats, make_strategy
from opponents.population.member import Member, check_role
from opponents.population.population import Population
from opponents.ratings.game_score import GameScore
from opponents.ratings.storage import RATINGS, save_ratings, saved_ratings
from opponents.settings import OpponentsSettings
from services.environments.environment import World
from services.environments.playing import Parts
from services.inference.engine import LEARNER
from services.metrics.catalogue import key

RESULTS, CURRICULUM, LINEUPS = "results.json", "curriculum.json", "lineups.jsonl"
PROMOTIONS, STARTS = "promotions.json", "starts.json"

MOST_RATED = 64  # players besides the anchors; the cost of a game grows with their square


class League:
    """Draws blocks, records their results, and keeps both in the run's folder.

    Line-ups are logged before they are played. Results are saved at every update and at the end. In a world without
    opponents there are no games to compare players by, so that only line-ups and the schedule of starts are kept.
    """

    def __init__(
        self,
        folder: Path,
        population: Population,
        settings: OpponentsSettings,
        *,
        world: World,
        num_generations: int,
        seed: int,
        version: int,
        resume: bool,
    ) -> None:
        """Load the state of earlier processes from the run's folder, as of ``version`` updates of the learner.

        Blocks have ``num_generations`` games of ``world``. Other processes may change the population between updates.
        Without ``resume``, files that a failed start has left in the folder are deleted.

        Raises PopulationError if a file is damaged or a specialist is for no role of the world, StorageError if a file
        cannot be read and written.
        """
        if not resume:
            for name in (RESULTS, CURRICULUM, RATINGS, LINEUPS, PROMOTIONS, STARTS):
                (folder / name).unlink(missing_ok=True)
        for member in population.members:
            if member.country is not None:
                check_role(member.country, world.roles, f"{member.id}: ", role_name=world.role_name)
        self.population = population
        self._world = world
        self._folder = folder
        self._version = version
        self._results = Results.load(folder / RESULTS, settings.results_half_life)
        self._ratings = saved_ratings(folder, world.roles, world.rating_scale)
        self._curriculum: Curriculum | None = None
        if settings.matchmaking == "curriculum" and world.has_opponents:
            self._curriculum = Curriculum.load(folder / CURRICULUM, settings, world.rating_scale.base_shares)
        self._starts = world.starts()
        load_starts(self._starts, folder / STARTS)
        self._rated_to = self._results.update  # the update that the learner's rating has drifted to
        self._roll_back(version)
        self._membership = MembershipChange(population, settings, folder / PROMOTIONS, world.role_name)
        self._playing: dict[int, tuple[str, ...]] = {}  # block index -> players of a block in progress
        strategy = self._membership.without_retiring(make_strategy(settings, self._opponent_stats()))
        self._matchmaker = Matchmaker(population, world, num_generations, seed, settings, strategy, self._starts)
        self._lineups = LineupLog(folder / LINEUPS)

    def __enter__(self) -> Self:
        """Return the league; its files are open already."""
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        """Save the results since the last update, unless an error is on its way that says why, and close the log."""
        try:
            with suppress(*([] if error is None else [StorageError])):
                self._save()
        finally:
            self._lineups.close()

    def block(self, index: int, newest_snapshot: int | None = None) -> LineupBlock:
        """The block at ``index``: as logged if it ever began, else drawn now and logged.

        Raises PopulationError as ``Matchmaker.draw``, StorageError if the log cannot be written.
        """
        record = self._lineups.get(index)
        if record is not None and self._is_playable(record):
            block = self._matchmaker.with_opponents(index, record.members, record.start)
        else:
            drawn = self._matchmaker.draw(index, newest_snapshot)
            block = drawn.block
            self._lineups.write(
                LineupRecord(
                    index,
                    block.role,
                    dict(block.opponents),
                    drawn.strategy,
                    drawn.probabilities,
                    self._version,
                    block.lineup,
                    block.start,
                )
            )
        self._playing[index] = tuple(dict(block.opponents).values())
        return block

    def members(self, block: LineupBlock) -> tuple[Member, ...]:
        """The distinct members in a block, including those retired since it was drawn."""
        ids = dict.fromkeys(dict(block.opponents).values())
        return tuple(self.population[member_id] for member_id in ids if member_id != LEARNER)

    def record(self, block: LineupBlock, games: Sequence[GameScore], outcomes: Sequence[Parts]) -> list[str]:
        """Record the results of a block's games; returns messages for the user.

        ``games`` are empty in a world without opponents; ``outcomes`` are the learner's, one a game.
        """
        self._playing.pop(block.index, None)
        role = block.role
        if outcomes:
            self._starts.record(role, block.start, outcomes)
        for game in games:
            self._results.record(game, role)
            self._ratings.record(game)
        if self._curriculum is None or not games:
            return []
        change = self._curriculum.record(games, role, self._matchmaker.drawable())
        if change is None:
            return []
        return [f"{role} moves {'up' if change.is_up else 'down'} to level {change.level}: {change.opponent}"]

    def snapshot_due(self, version: int) -> NewSnapshot | None:
        """The snapshot to make of the learner after ``version`` updates, if one is due."""
        self._drift(version)
        return self._membership.snapshot_due(version, self._ratings)

    def change_members(self, version: int, new: NewSnapshot | None, add: Callable[[Population], object]) -> list[str]:
        """Bring the population up to update ``version``, in one transaction; returns messages for the user.

        ``new`` is from ``snapshot_due``; if it is not None, ``add`` adds the learner's frozen weights.
        Raises PopulationError as ``add`` or if the file cannot be changed; nothing is changed then.
        """
        if new is not None:
            self._membership.record_promotion(new)
        with self.population.transaction():
            self.population.advance_to(version)
            if new is not None:
                add(self.population)
                self._rate_snapshots(version)
            playing = {player for players in self._playing.values() for player in players}
            retired = self._membership.retire(self._ratings, playing)
        return retired if new is None else [f"v{version} joins the population: {new.reason}", *retired]

    def updated(self, version: int) -> dict[str, float]:
        """Save the state after ``version`` updates of the learner; returns metrics."""
        self._version = version
        self._drift(version)
        self._rate_snapshots(version)
        self._limit_rated_players()
        self._results.advance(version)
        self._save()
        return self.metrics()

    def metrics(self) -> dict[str, float]:
        """Metrics of the members that may be drawn now, of the learner and of the starts; keys of the catalogue."""
        values: dict[str, float] = dict(self._starts.metrics())
        games = self._results.games
        drawable = [member.id for member in self._matchmaker.drawable()]
        for member_id in drawable:
            if member_id in games:
                values[key("entente_opponent_score", opponent=member_id)] = self._results.score(member_id)
                values[key("entente_opponent_games_total", opponent=member_id)] = float(games[member_id])
        for player in (LEARNER, *drawable):
            rating = self._ratings.rating(player)
            if rating.games:
                values[key("entente_rating", player=player)] = rating.mu
                values[key("entente_rating_deviation", player=player)] = rating.sigma
        retired = sum(member.retired for member in self.population.members)
        values[key("entente_population_size", state="retired")] = float(retired)
        values[key("entente_population_size", state="active")] = float(len(self.population.members) - retired)
        values[key("entente_promotions_total")] = float(self._membership.promotions)
        if self._curriculum is not None:
            for role, level in self._curriculum.levels.items():
                values[key("entente_curriculum_level", **{self._world.role_name: role})] = float(level)
        return values

    def _roll_back(self, version: int) -> None:
        """Adapt to a resume further back: results of removed snapshots go, for others will have their names."""
        known = (*self._ratings.players, *self._results.tallies)
        gone = [player for player in known if player.startswith("policy/") and player not in self.population]
        self._ratings.remove(gone)
        self._results.remove(gone)
        if version < self._rated_to:
            self._ratings.drift(LEARNER, self._rated_to - version)
            self._rated_to = version

    def _drift(self, version: int) -> None:
        """Widen the uncertainty of the learner's rating, once per update."""
        self._ratings.drift(LEARNER, max(0, version - self._rated_to))
        self._rated_to = max(version, self._rated_to)

    def _rate_snapshots(self, version: int) -> None:
        """Give the snapshots of this version the learner's present rating."""
        for member in self.population.members:
            if member.is_own_snapshot and member.version == version and member.id not in self._ratings.players:
                self._ratings.add(member.id, like=LEARNER)

    def _limit_rated_players(self) -> None:
        """Remove ratings of players that are never drawn again, oldest first, while more than MOST_RATED are rated."""
        drawable = {member.id for member in self._matchmaker.drawable()}
        past = [player for player in self._ratings.players if player != LEARNER and player not in drawable]
        surplus = len(self._ratings.players) - MOST_RATED
        self._ratings.remove(past[: max(0, surplus)])

    def _save(self) -> None:
        save_starts(self._starts, self._folder / STARTS)
        if self._world.has_opponents:
            self._results.save(self._folder / RESULTS)
            save_ratings(self._ratings, self._folder / RATINGS)
        if self._curriculum is not None:
            self._curriculum.save(self._folder / CURRICULUM)

    def _opponent_stats(self) -> OpponentStats:
        def curriculum(role: str, members: Sequence[Member]) -> str:
            assert self._curriculum is not None, "only the curriculum strategy calls this"
            return self._curriculum.opponent(role, members)

        return OpponentStats(self._results.score, lambda player: self._ratings.rating(player).mu, curriculum)

    def _is_playable(self, record: LineupRecord) -> bool:
        """Whether all players of a record exist; a resume further back may have removed a snapshot."""
        complete = set(record.members) == set(self._matchmaker.seats(record.index))
        return complete and all(who == LEARNER or who in self.population for who in record.members.values())
