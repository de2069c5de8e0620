"""The exporter of a run: one for all restarts within a process, at the port that the run had in earlier processes."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Self

from cluster.runs.folder import RunFolder
from grpo_core.checkpoints.atomic_write import write_atomically
from grpo_core.files import read_text
from services.metrics.catalogue import MetricsError
from services.metrics.prometheus_exporter import Exporter
from services.settings import MetricsSettings

_PORT_BYTES = 64  # its file is no longer


class MetricsServer:
    """A context manager that serves a run's metrics from the first ``open`` to the end of its block."""

    def __init__(self) -> None:
        """Serve nothing yet."""
        self._exporter: Exporter | None = None

    def __enter__(self) -> Self:
        """Nothing to do; ``open`` starts to serve."""
        return self

    def __exit__(self, *_: object) -> None:
        """Stop serving and free the port."""
        if self._exporter is not None:
            self._exporter.close()

    def open(
        self, settings: MetricsSettings, run: str, folder: RunFolder, say: Callable[[str], None]
    ) -> Exporter | None:
        """Return the exporter of the run named ``run``, the same one at each call; None if the config wants none.

        If the config leaves the port free (0), the one that ``folder`` recorded is taken again, so that Prometheus
        finds a resumed run where it was; ``say`` gets a line if another process has it by now.

        Raises MetricsError as ``Exporter``.
        """
        if self._exporter is None and settings.port is not None:
            port = settings.port or _recorded_port(folder)
            try:
                self._exporter = Exporter(port, settings.host, run)
            except MetricsError:
                if settings.port or not port:
                    raise
                self._exporter = Exporter(0, settings.host, run)
                say(f"port {port}, where this run served its metrics before, cannot be used now; a free one is taken")
            if not settings.port:
                write_atomically(folder.metrics_port, f"{self._exporter.port}\n".encode())
        return self._exporter


def _recorded_port(folder: RunFolder) -> int:
    """Return the port in the run folder; 0 if there is none that can be read."""
    with suppress(OSError, ValueError):
        port = int(read_text(folder.metrics_port, _PORT_BYTES))
        return port if 0 < port < 1 << 16 else 0
    return 0
