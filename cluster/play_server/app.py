"""The server's routes: the page's own files, the lines as JSON, and what a person does in them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from functools import cache
from importlib.resources import files
from typing import Annotated, Any, TypeVar

import msgspec
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route

from cluster.play_server import entry
from cluster.play_server.document import LARGEST_SEED, Name, Power, line_origin, saved_game
from cluster.play_server.entry import NotYoursError, RefusedError
from cluster.play_server.line import Line
from cluster.play_server.table import Table, Watcher, parse_until
from cluster.play_server.views import line_view, session_view
from grpo_core.errors import EntenteError
from grpo_core.files import parse_json
from services.reports.colors import country_styles
from services.reports.game_viewer.board import board_data
from services.reports.page import asset

HEARTBEAT_S = 15.0  # a stream without events says that it is alive
MOST_STREAMS = 50
# Path -> file of this package and its type: no path of a request is ever a file's name.
_FILES = {
    "/": ("page.html", "text/html"),
    "/assets/page.css": ("page.css", "text/css"),
    "/assets/board.css": ("board.css", "text/css"),
    "/assets/main.js": ("main.js", "text/javascript"),
    "/assets/server.js": ("server.js", "text/javascript"),
    "/assets/board.js": ("board.js", "text/javascript"),
    "/assets/orders.js": ("orders.js", "text/javascript"),
    "/assets/panels.js": ("panels.js", "text/javascript"),
    "/assets/setup.js": ("setup.js", "text/javascript"),
}
_Phase = Annotated[str, msgspec.Meta(max_length=9)]
_Order = Annotated[str, msgspec.Meta(max_length=60)]
_Until = Annotated[str, msgspec.Meta(max_length=4)]
_Seed = Annotated[int, msgspec.Meta(ge=0, le=LARGEST_SEED)]


class _Strict(msgspec.Struct, forbid_unknown_fields=True):
    """A request's body; a field that it does not have is refused."""


class _NewGame(_Strict):
    seats: dict[Power, Name]
    until: _Until
    seed: _Seed
    name: Annotated[str, msgspec.Meta(max_length=60)] = ""


class _Fork(_Strict):
    index: Annotated[int, msgspec.Meta(ge=0, le=2000)]
    redraw: bool = False


class _OfPhase(_Strict):
    phase: _Phase


class _OfSeat(_Strict):
    phase: _Phase
    power: Power


class _OneOrder(_Strict):
    phase: _Phase
    power: Power
    order: _Order


class _Sheet(_Strict):
    phase: _Phase
    power: Power
    orders: Annotated[list[_Order], msgspec.Meta(max_length=34)]


class _Seat(_Strict):
    phase: _Phase
    power: Power
    player: Name


class _Ending(_Strict):
    until: _Until


Body = TypeVar("Body", bound=_Strict)
Handler = Callable[[Request], Awaitable[Response]]


def make_app(table: Table, defaults: Mapping[str, Any]) -> Starlette:
    """The application; ``defaults`` (seats, until, seed) are what a new game begins with."""
    routes = [Route(path, _file(name, kind)) for path, (name, kind) in _FILES.items()]
    routes += [
        Route("/assets/colors.css", _text(lambda: asset("common.css") + country_styles(), "text/css")),
        Route("/api/board", _text(lambda: msgspec.json.encode(board_data()).decode(), "application/json")),
    ]

    async def session(_: Request) -> Response:
        return _json(session_view(table, defaults))

    async def line(request: Request) -> Response:
        found = table.line(request.path_params["line"])
        if table.round(found) is None and not found.is_over:
            table.wake(found.id)  # after a restart
        since = request.query_params.get("since", "0")
        count = int(since) if since.isdecimal() and since.isascii() and len(since) < 5 else 0
        return _json(line_view(found, table.round(found), min(count, len(found.phases) - 1)))

    async def game(request: Request) -> Response:
        found = table.line(request.path_params["line"])
        attached = {"Content-Disposition": f'attachment; filename="line-{found.id}.json"'}
        origin = await asyncio.to_thread(line_origin, found, table.players.describe)
        content = msgspec.json.encode(saved_game(found, origin))
        return Response(content, media_type="application/json", headers=attached)

    async def load(request: Request) -> Response:
        try:
            document = parse_json(await request.body())
        except ValueError as error:
            raise RefusedError(f"this is not a saved game: {error}") from error
        made = await table.load(document, "Loaded game", seed=defaults["seed"], until=defaults["until"])
        return _json({"id": made.id})

    async def hints(request: Request) -> Response:
        found, asked = table.line(request.path_params["line"]), request.query_params
        power, player = asked.get("power", ""), asked.get("player", "")
        if power not in found.people_to_move:
            raise NotYoursError("hints are for a country that a person plays, and that has something to decide")
        note, sheets = await table.players.hints(player, found.present.position, power)
        return _json({"note": note, "sheets": sheets})

    async def new_game(request: Request) -> Response:
        body = await _read(request, _NewGame)
        made = await table.begin(body.seats, seed=body.seed, until=parse_until(body.until), name=body.name.strip())
        return _json({"id": made.id})

    async def fork(request: Request) -> Response:
        body = await _read(request, _Fork)
        made = await table.fork(request.path_params["line"], body.index, redraw=body.redraw)
        return _json({"id": made.id})

    async def seat(request: Request) -> Response:
        body = await _read(request, _Seat)
        return _shown(table, await table.seat(request.path_params["line"], body.phase, body.power, body.player))

    async def until(request: Request) -> Response:
        body = await _read(request, _Ending)
        return _shown(table, await table.end_at(request.path_params["line"], body.until))

    async def retry(request: Request) -> Response:
        table.retry(request.path_params["line"])
        return _shown(table, table.line(request.path_params["line"]))

    async def events(_: Request) -> Response:
        if len(table.watchers) >= MOST_STREAMS:
            raise RefusedError("too many pages are open")
        return StreamingResponse(_events(table), media_type="text/event-stream")

    def change(kind: type[Body], changed: Callable[[Line, Body], Line]) -> Handler:
        async def handler(request: Request) -> Response:
            body: Any = await _read(request, kind)
            made = await table.change(request.path_params["line"], body.phase, lambda line: changed(line, body))
            return _shown(table, made)

        return handler

    of_line = "/api/lines/{line:int}"
    changes: dict[str, Handler] = {
        "enter": change(_OneOrder, lambda line, body: entry.enter(line, body.power, body.order)),
        "remove": change(_OneOrder, lambda line, body: entry.remove(line, body.power, body.order)),
        "sheet": change(_Sheet, lambda line, body: entry.enter_sheet(line, body.power, body.orders)),
        "undo": change(_OfSeat, lambda line, body: entry.undo(line, body.power)),
        "clear": change(_OfSeat, lambda line, body: entry.clear(line, body.power)),
        "submit": change(_OfPhase, lambda line, _: entry.submit(line)),
        "recall": change(_OfPhase, lambda line, _: entry.recall(line)),
        "seat": seat,
        "until": until,
        "retry": retry,
        "fork": fork,
    }
    routes += [
        Route("/api/session", session),
        Route("/api/events", events),
        Route("/api/lines", new_game, methods=["POST"]),
        Route("/api/load", load, methods=["POST"]),
        Route(of_line, line),
        Route(f"{of_line}/game", game),
        Route(f"{of_line}/hints", hints),
        *(Route(f"{of_line}/{name}", handler, methods=["POST"]) for name, handler in changes.items()),
    ]
    return Starlette(routes=routes, exception_handlers={EntenteError: _refused})


async def _refused(_: Request, error: Exception) -> Response:
    return PlainTextResponse(str(error), getattr(error, "status", 422))


async def _read(request: Request, kind: type[Body]) -> Body:
    try:
        return msgspec.json.decode(await request.body(), type=kind)
    except (ValueError, RecursionError) as error:  # msgspec's errors are ValueErrors
        raise RefusedBodyError(f"the request cannot be read: {error}") from error


class RefusedBodyError(RefusedError):
    """A request's body is not what its route takes."""

    status = 400


def _json(data: Any) -> Response:
    return Response(msgspec.json.encode(data), media_type="application/json")


def _shown(table: Table, line: Line) -> Response:
    return _json(line_view(line, table.round(line), len(line.phases) - 1))


def _file(name: str, kind: str) -> Handler:
    return _text(lambda: files("cluster.play_server").joinpath("static", name).read_text(encoding="utf-8"), kind)


def _text(make: Callable[[], str], kind: str) -> Handler:
    made = cache(make)

    async def handler(_: Request) -> Response:
        return Response(made(), media_type=kind)

    return handler


async def _events(table: Table) -> AsyncIterator[bytes]:
    """Numbers of changed lines as server-sent events, until the server ends or the page has gone."""
    watcher = Watcher()
    table.watchers.add(watcher)
    try:
        yield b"retry: 1000\n\n"
        while not table.is_closing:
            changed = await watcher.wait(HEARTBEAT_S)
            yield b"data: " + msgspec.json.encode({"lines": changed}) + b"\n\n" if changed else b": alive\n\n"
    finally:
        table.watchers.discard(watcher)
