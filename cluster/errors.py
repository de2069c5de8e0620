"""The errors a user can do something about: one line on stderr, exit code 2."""

from __future__ import annotations

from cluster.configs.loader import ConfigError
from grpo_core.errors import CheckpointError


class RunError(RuntimeError):
    """The run cannot start or go on; the message says why and what to do."""


class LostError(RunError):
    """A process that the run stands on has died or fallen silent; nothing durable is lost, so a new start goes on."""


class LateError(LostError):
    """An answer did not come in time: lost as well, or the time limit was too short from the beginning."""


def user_errors() -> tuple[type[BaseException], ...]:
    """Every exception that is an answer to the user rather than a bug; imported late to keep ``--help`` fast."""
    from grpo_core.errors import DivergenceError, GroupingError, ResourceError
    from opponents.population.population import PopulationError
    from services.environments.diplomacy.game import SavedGameError
    from services.inference.chat_endpoint.settings import EndpointError
    from services.inference.engine import EngineError
    from services.metrics.catalogue import MetricsError
    from services.replay.buffer import ReplayError
    from services.reports.errors import ReportError
    from services.weights.payload import WeightsError

    return (
        ConfigError,
        CheckpointError,
        DivergenceError,
        GroupingError,
        ResourceError,
        RunError,
        PopulationError,
        SavedGameError,
        EndpointError,
        EngineError,
        MetricsError,
        ReplayError,
        ReportError,
        WeightsError,
    )
