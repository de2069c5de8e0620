"""The run's replay servers, embedded or external."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager, nullcontext
from pathlib import Path

from cluster.errors import RunError
from cluster.runtime.replay.addresses import external_urls
from cluster.runtime.replay.clients import redis_buffer
from cluster.runtime.replay.server_watch import ServerWatch
from grpo_core.errors import EntenteError, StorageError
from services.replay.buffer import ServerLostError
from services.replay.redis_store.connection import Connection
from services.replay.server.embedded import EmbeddedServer, running_url
from services.settings import RedisSettings


def embedded_folders(settings: RedisSettings, folder: Path) -> tuple[Path, ...]:
    """The folder of each server that a run starts: ``folder`` for one, ``folder/1``, ``folder/2``, ... for several."""
    if settings.servers == 1:
        return (folder,)
    return tuple(folder / str(number) for number in range(1, settings.servers + 1))


def running_urls(settings: RedisSettings, folder: Path) -> tuple[str, ...]:
    """The urls of the servers that the run started, if all of them run; else empty."""
    found = [running_url(each) for each in embedded_folders(settings, folder)]
    urls = tuple(url for url in found if url is not None)
    return urls if len(urls) == len(found) else ()


@contextmanager
def replay_servers(
    settings: RedisSettings, folder: Path, say: Callable[[str], None] | None = None
) -> Iterator[tuple[str, ...]]:
    """Yield the URLs of the servers that the settings name, or of those started with their data in ``folder``.

    With ``say``, which shows the user a line, an external one that is away is waited for, as by a run under way.

    Raises ReplayError if a server cannot be started, or an external one does not answer; RunError if it was waited for
    in vain; StorageError if a server that was started cannot write its files, also when it ends because of that during
    the block.
    """
    if urls := external_urls(settings):
        with nullcontext() if say is None else watched(settings, say) as watch:
            for url in urls:  # fails now, before anything is started
                _probe(settings, url, watch)
            if watch is not None:
                watch.ask()  # it says that the server is back
        yield urls
        return
    with ExitStack() as stack:
        folders = embedded_folders(settings, folder)
        servers = [stack.enter_context(closing(EmbeddedServer.start(each))) for each in folders]
        try:
            yield tuple(server.url for server in servers)
        except EntenteError as error:
            if not isinstance(error, StorageError):
                for server in servers:
                    if refused := server.refused_write():
                        raise refused from error
            raise


def _probe(settings: RedisSettings, url: str, watch: ServerWatch | None) -> None:
    try:
        with closing(redis_buffer(settings, url, "probe", patient=watch is not None, grace_s=0.0)) as probe:
            probe.stored_ids(["probe/0"])
    except ServerLostError as error:
        if watch is None:
            raise
        # It was away for the whole time limit, so this is no accident, after which the run starts again.
        raise RunError(f"{error}; go on with --resume when the server is back") from error


def watched(settings: RedisSettings, say: Callable[[str], None]) -> ServerWatch:
    """The watch of the servers that the settings name; of the run's own ones there is nothing to watch."""
    connections = [Connection(url, settings.connect_timeout_s) for url in external_urls(settings)]
    return ServerWatch(
        {connection.shown_url: connection.answers for connection in connections}, settings.away_timeout_s, say
    )
