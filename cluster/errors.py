"""The tree of errors, and the exit code of a command that one of them ends.

An error in this tree answers the user: the command prints its message as one line on stderr, without a traceback.
Control characters that the message quotes are left out, and a line has at most 500 characters (``one_line``).

    EntenteError                2  grpo_core.errors
      CheckpointError           2  grpo_core.errors
        ChampionError           2  opponents.champion.shipped
      ConfigError               2  cluster.errors
      DivergenceError           2  grpo_core.errors
      DocumentationError        2  cluster.documentation.site: `make docs` ends
      DrillFailedError          1  cluster.drill.training_process: a run did not recover, or lost something
      EndpointError             2  services.inference.chat_endpoint.settings
        EndpointRefusedError    2  services.inference.chat_endpoint.settings
      EngineError               2  services.inference.engine
      GroupingError             2  grpo_core.errors
      InsightError              2  opponents.insight.question
      MetricsError              2  services.metrics.catalogue
      MissingRequirementError   2  cluster.bench.figure: `entente bench` leaves the measurement out
      PlayerError               2  cluster.play_server.players: the page shows it
      PopulationError           2  opponents.population.member
        RatingsError            2  opponents.ratings.book
      ProblemFileError          2  services.environments.word_problems.problem
      RefusedError              2  cluster.play_server.entry: the answer to a page's request
        IllegalOrderError       2  cluster.play_server.entry
        MissingError            2  cluster.play_server.table
        NotYoursError           2  cluster.play_server.entry
        RefusedBodyError        2  cluster.play_server.app
      ReplayError               2  services.replay.buffer
        BlocksMissingError      2  services.replay.buffer: the learner asks again
          UnreadableError       2  services.replay.buffer: other blocks are played in place of these, a few times
        ServerLostError         2  services.replay.buffer: an accident, see below
      ReportError               2  services.reports.page
      ResourceError             2  grpo_core.errors
      RewardError               2  services.environments.word_problems.rewards.custom
      RunError                  2  cluster.errors
        LostError               2  cluster.errors: an accident, see below
          ControlServiceLostError 2  cluster.errors
          LateError             2  cluster.errors
        ServerAwayError         2  cluster.errors: the run saves first
        NoGradientsError        2  cluster.diagnostics.gradient_audit: `entente groups audit` leaves gradients out
      SavedGameError            2  services.environments.diplomacy.saved_game
      ScenarioError             2  services.environments.diplomacy.scenarios.scenario
      StorageError              2  grpo_core.errors: a file cannot be written
      TaskError                 2  services.environments.tensor_task
      WeightsError              2  services.weights.payload
      WorldError                2  services.environments.registry

After an accident a run restarts from its last checkpoint (``cluster.runs.restarts``).

Other exit codes: 0 after success; 2 for a wrong command line, for a file that the operating system refuses and no
command expected (its name and the reason are the line), and for ``entente doctor`` with a fault;
130 after an interruption; 1 if the reader of its output has ended (``| head``), and with a traceback for every other
exception, which is a bug.

Three errors are internal, because their callers catch them and count a defect: ``CodecError`` (an episode's bytes),
``ConstraintError`` (an order sheet that does not fit its mask) and ``InvalidAnswerError`` (an endpoint's bytes).
"""

from __future__ import annotations

from grpo_core.errors import EntenteError

INTERRUPTED = 130  # exit code of a command that was asked to stop; a run has saved


class ConfigError(EntenteError, ValueError):
    """The configuration cannot be used; the message is one line that names the key and what to do."""


class RunError(EntenteError, RuntimeError):
    """The run cannot start or go on; the message gives the reason and what to do."""


class ServerAwayError(RunError):
    """An external replay server was away for longer than a run waits for it."""


class LostError(RunError):
    """A process that the run needs has died or stopped responding; nothing durable is lost, so a restart continues."""


class ControlServiceLostError(LostError):
    """Ray's control service has ended; actors still answer for about a minute."""


class LateError(LostError):
    """An answer did not come in time: the process is lost, or the time limit was too short from the beginning."""
