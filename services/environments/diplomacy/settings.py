"""What a configuration says about Diplomacy: its sections ``[game]``, ``[evaluation]`` and ``[imitation]``."""

from __future__ import annotations

from pydantic import Field

from grpo_core.section import Settings, Texts
from services.environments.settings import EvaluationSettings, ImitationSettings

PRESS_ROUNDS = 2  # before each movement phase, of games with press that are not a run's


class GameSettings(Settings):
    """The training games and their rewards."""

    until_year: int = Field(1905, ge=1901, le=1999, description="Last year played to its end, adjustments included")
    quiet_years: int | None = Field(
        None,
        ge=1,
        le=99,
        description="A training game is a draw of all survivors once no centre has changed hands in so many years; "
        "unset: only its last year ends it; games that begin in scenarios end at their horizon. until_year = 1935 and "
        "quiet_years = 5 are whole games",
    )
    draw_votes: bool = Field(
        False,
        description="Players vote with the orders of each movement phase, a line DRAW or PLAY-ON: a game is a draw of "
        "all survivors when all powers with units want it. Bots do after two years without a change of centres, who "
        "alone has most after four. Policies whose tokenizer lacks the two words play on",
    )
    press_rounds: int = Field(
        0,
        ge=0,
        le=10,
        description="Rounds of letters before each movement phase, in which all powers write to one another and then "
        "read what they were written; 0: no press. A small policy that a run begins with gets the words of press if it "
        "lacks them; opponents that lack them are silent",
    )
    press_public: bool = Field(
        False, description="Letters to all powers are delivered as well; they bind no power to a promise"
    )
    press_length: int = Field(
        1000, ge=20, le=100_000, description="Characters of a letter, and of notes; what is longer is cut off"
    )
    press_budget: int | None = Field(
        None,
        ge=1,
        le=10**9,
        description="Characters of all letters of a power in a game; a letter that is longer than what is left is not "
        "delivered, and who has less than four left is not asked again, for notes neither. Time limits are those of "
        "the players: opponents.remotes.NAME.timeout_s",
    )
    reward: dict[str, float] = Field(
        default_factory=lambda: {"center_change": 1.0},
        examples=[{"center_change": 0.5, "dipnet": 0.5}],
        description="Weights of the reward parts: center_change (each centre gained or lost), centers, sum_of_squares, "
        "draw_size, proportional, survival, win, dipnet, format (-1 for each line of a text that is no legal order, "
        "letter or note, and for each letter that is too long or beyond the budget); with press honesty (-1 for each "
        "broken promise), cooperation (supports of others' units that count), joint_outcome (mean centres gained by "
        "the powers with which it has a peace or an alliance), listening (bits of surprise at partners' orders that "
        "letters spare the policy, mean over partners), speaking (bits by which its letters move the orders of "
        "policies that read them; bots and players without a mask in the torch engine count 0). The last two ask the "
        "engine many times a phase, also with a weight of 0, which logs them alone",
    )
    scenarios: Texts = Field(
        (),
        max_length=1000,
        examples=[["opening", "mine/"], ["all"]],
        description="Scenarios that training games may begin in, to their horizon: ids, families (opening, alliance, "
        "crisis, endgame), all, or files and folders with a slash; opponents are those of whole games",
    )
    scenario_share: float = Field(
        0.0,
        ge=0,
        le=1,
        description="Share of the blocks that begin in one of game.scenarios of their country, drawn evenly; countries "
        "without one play whole games",
    )
    saved_games: str | None = Field(
        None, description="Folder of saved games (*.json) in whose positions training games may begin"
    )
    saved_players: Texts = Field(
        (),
        examples=[["greedy"]],
        description="Only positions of countries that these players had in those games, as their records of seats "
        "name them; empty: of all",
    )
    saved_share: float = Field(
        0.0,
        ge=0,
        le=1,
        description="Share of the blocks that begin in a movement phase of game.saved_games in which their country "
        "has units; a scenario that game.scenario_share draws goes first",
    )
    saved_years: int | None = Field(
        None,
        ge=1,
        le=99,
        description="Years that such a game is played on, the one it begins in included; unset: to the end of whole "
        "games, or of the next year with game.saved_playouts",
    )
    saved_playouts: int = Field(
        0,
        ge=0,
        le=10_000,
        description="Such a game is one decision, which bots play on in so many simulated games (playouts), the same "
        "ones for all games of a block; it earns the centres gained by then, on average, a solo counting as 22. "
        "0: the players play it on themselves",
    )
    playout_opponents: Texts = Field(
        ("dumbbot",),
        min_length=1,
        examples=[["dumbbot", "greedy"]],
        description="Bots in the other six seats of those simulated games, drawn for each seat",
    )


class DiplomacyEvaluation(EvaluationSettings):
    """Evaluations: games against fixed anchors, all seven countries in rotation."""

    against: Texts = Field(
        ("random",),
        examples=[["random", "dumbbot"]],
        description="Bots, champion (what comes with the package; it looks ahead, which is slow), or policy:champion "
        "(its policy alone), that fill the other six seats, one evaluation each",
    )
    games_per_country: int = Field(10, ge=1, le=10**6, description="Games the policy plays as each country")
    until_year: int = Field(1905, ge=1901, le=1999, description="Last year of an evaluation game")
    quiet_years: int | None = Field(
        None,
        ge=1,
        le=99,
        description="An evaluation game is a draw of all survivors once no centre has changed hands in so many years; "
        "unset: only its last year ends it",
    )
    muted: bool = Field(
        False,
        description="The trained policy meets each of them once more in the same games with its own letters withheld: "
        "what its words are worth. It needs game.press_rounds",
    )
    final_against: Texts = Field((), examples=[["dumbbot"]], description="Further ones met by the trained policy only")

    @property
    def role_games(self) -> int:
        """Games of each country."""
        return self.games_per_country


class DiplomacyImitation(ImitationSettings):
    """Games of other players that the policy imitates before it plays its own."""

    games: int = Field(
        0,
        ge=0,
        le=10**6,
        description="Games of seven teachers that are played and imitated before the first update; 0: none",
    )
    teacher: str = Field("dumbbot", description="Bot that is imitated")
    against: Texts = Field(
        (),
        examples=[["dumbbot"], ["dumbbot", "greedy"]],
        description="Bots that fill six seats of a teacher's game, each drawn from these: the teacher then plays one "
        "country, in rotation, and only it is imitated; empty: it plays all seven",
    )
    until_year: int = Field(1908, ge=1901, le=1999, description="Last year of a teacher's game")
    quiet_years: int | None = Field(
        None,
        ge=1,
        le=99,
        description="A teacher's game is a draw of all survivors once no centre has changed hands in so many years; "
        "unset: only its last year ends it",
    )
    saved_games: str | None = Field(None, description="Folder of saved games (*.json) that are imitated too")
    saved_players: Texts = Field(
        (),
        examples=[["lookahead"]],
        description="Players whose decisions in saved games are imitated, as the games' records of seats name them; "
        "empty: those of all powers",
    )
    relabel: str | None = Field(
        None,
        examples=["lookahead"],
        description="Bot that is asked what it would do at each of these decisions, which is imitated instead of what "
        "was done (DAgger); for games that the policy itself has played",
    )
    relabel_margin: float | None = Field(
        None,
        gt=0,
        le=34,
        description="With relabel = lookahead: what was done is imitated again, unless it finds orders after which "
        "there are so many more centres at the end of the next year, on average. A decision meets "
        "some 400 simulated games. Expected are DumbBot and greedy where they sat, imitation.against elsewhere",
    )

    @property
    def wanted(self) -> bool:
        """Whether there is anything to imitate."""
        return bool(self.games or self.saved_games)
