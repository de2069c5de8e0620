"""Malformed and hostile requests to the play server are refused, and change nothing."""

from __future__ import annotations

import json
import stat
from collections.abc import Iterator
from http.client import HTTPConnection
from pathlib import Path

import pytest

from services.environments.diplomacy.game import DiplomacyGame
from tests.system.support.play_server import PlayServer

pytestmark = pytest.mark.system

SEATS = dict.fromkeys(("AUSTRIA", "ENGLAND", "GERMANY", "ITALY", "RUSSIA", "TURKEY"), "hold")
ORDER = {"phase": "S1901M", "power": "FRANCE", "order": "A PAR - BUR"}
NEW = {"seats": {**SEATS, "FRANCE": "person"}, "until": "1901", "seed": 1}
Headers = dict[str, str | None]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PlayServer]:
    folder = tmp_path_factory.mktemp("play")
    (folder / "secret.json").write_text("{}")
    with PlayServer(folder / "games", "--seat", "FRANCE=person", "--default", "hold", "--until", "1901") as made:
        yield made


def entered(**changes: object) -> bytes:
    return json.dumps({**ORDER, **changes}).encode()


def new(**changes: object) -> bytes:
    return json.dumps({**NEW, **changes}).encode()


ENTER = "/api/lines/1/enter"
# Name: (status, method, path, body, headers that differ from the page's).
HOSTILE: dict[str, tuple[int, str, str, bytes | None, Headers]] = {
    "no token": (403, "POST", ENTER, entered(), {"Cookie": None}),
    "wrong token": (403, "POST", ENTER, entered(), {"Cookie": "entente_1=x"}),
    "token in the address of a request": (403, "POST", f"{ENTER}?token=x", entered(), {"Cookie": None}),
    "another origin": (403, "POST", ENTER, entered(), {"Origin": "http://evil.example"}),
    "another port of this host": (403, "POST", ENTER, entered(), {"Origin": "http://127.0.0.1:1"}),
    "an opaque origin": (403, "POST", ENTER, entered(), {"Origin": "null"}),
    "no origin": (403, "POST", ENTER, entered(), {"Origin": None}),
    "fetched by another site": (403, "POST", ENTER, entered(), {"Sec-Fetch-Site": "cross-site"}),
    "read by another site": (403, "GET", "/api/session", None, {"Sec-Fetch-Site": "same-site"}),
    "another host name": (421, "POST", ENTER, entered(), {"Host": "evil.example"}),
    "a form": (415, "POST", ENTER, entered(), {"Content-Type": "application/x-www-form-urlencoded"}),
    "plain text": (415, "POST", ENTER, entered(), {"Content-Type": "text/plain"}),
    "another method": (405, "PUT", ENTER, entered(), {}),
    "a deletion": (405, "DELETE", "/api/lines/1", None, {}),
    "a change by GET": (405, "GET", ENTER, None, {}),
    "a huge body": (413, "POST", ENTER, b" " * 100_000, {}),
    "a huge stated body": (413, "POST", ENTER, None, {"Content-Length": "99999999999"}),
    "a body without an end": (400, "POST", ENTER, b"{", {}),
    "no JSON": (400, "POST", ENTER, b"\xff\xfe", {}),
    "deep JSON": (400, "POST", ENTER, b"[" * 9000, {}),
    "an unknown field": (400, "POST", ENTER, entered(path="/etc/passwd"), {}),
    "a missing field": (400, "POST", ENTER, b'{"power":"FRANCE"}', {}),
    "another type": (400, "POST", ENTER, entered(order=["A PAR H"]), {}),
    "an unknown power": (400, "POST", ENTER, entered(power="NARNIA"), {}),
    "a long order": (400, "POST", ENTER, entered(order="A PAR - BUR" * 9), {}),
    "orders for a player's seat": (403, "POST", ENTER, entered(power="GERMANY", order="A MUN - BUR"), {}),
    "orders for another's unit": (422, "POST", ENTER, entered(order="A MUN - BUR"), {}),
    "an impossible order": (422, "POST", ENTER, entered(order="A PAR - MOS"), {}),
    "two orders": (422, "POST", ENTER, entered(order="A PAR H\nA MAR H"), {}),
    "another phase": (409, "POST", ENTER, entered(phase="F1901M"), {}),
    "another line": (404, "POST", "/api/lines/7/enter", entered(), {}),
    "a line that is no number": (404, "POST", "/api/lines/..%2f/enter", entered(), {}),
    "a path upwards": (404, "GET", "/assets/../../secret.json", None, {}),
    "an encoded path upwards": (404, "GET", "/assets/%2e%2e/secret.json", None, {}),
    "a doubled slash": (404, "GET", "//etc/passwd", None, {}),
    "a file of the folder": (404, "GET", "/.token", None, {}),
    "a line's file": (404, "GET", "/line-1.json", None, {}),
    "hints for another seat": (403, "GET", "/api/lines/1/hints?power=GERMANY&player=dumbbot", None, {}),
    "a player that is a path": (404, "POST", "/api/lines", new(seats={"FRANCE": "/etc"}), {}),
    "a game without players": (409, "POST", "/api/lines", new(seats={}), {}),
    "an impossible ending": (409, "POST", "/api/lines", new(until="1800"), {}),
    "an impossible seed": (400, "POST", "/api/lines", new(seed=-1), {}),
    "a phase to come": (404, "POST", "/api/lines/1/fork", b'{"index": 9}', {}),
    "a seat for an unknown player": (
        404, "POST", "/api/lines/1/seat", b'{"phase":"S1901M","power":"FRANCE","player":"../x"}', {}
    ),
    "no saved game": (422, "POST", "/api/load", b'{"phases": [1]}', {}),
    "a saved game of another map": (422, "POST", "/api/load", b'{"map": "../../x", "phases": [{}]}', {}),
}  # fmt: skip


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_request_is_refused_and_changes_nothing(server: PlayServer, name: str) -> None:
    status, method, path, body, headers = HOSTILE[name]
    before, shown = server.state(), server.request("GET", "/api/lines/1")
    answer, text = server.request(method, path, body, headers)
    assert (answer, name) == (status, name), text
    assert b"Traceback" not in text
    assert server.state() == before
    assert json.loads(server.request("GET", "/api/lines/1")[1])["revision"] == json.loads(shown[1])["revision"]


def test_the_printed_address_gives_the_cookie_and_headers_that_confine_the_page(server: PlayServer) -> None:
    connection = HTTPConnection("127.0.0.1", server.port, timeout=60)
    connection.request("GET", f"/?token={server.token}")
    answer = connection.getresponse()
    cookie = answer.getheader("Set-Cookie") or ""
    assert (answer.status, answer.getheader("Location")) == (303, "/")
    assert "HttpOnly" in cookie
    assert "samesite=strict" in cookie.lower()
    policy = answer.getheader("Content-Security-Policy") or ""
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert "http:" not in policy
    connection.close()
    status, page = server.request("GET", "/", None, {"Origin": None, "Content-Type": None})
    assert status == 200
    assert b"<html" in page
    token = server.games_dir / ".token"
    assert stat.S_IMODE(token.stat().st_mode) == 0o600


def test_a_saved_game_is_loaded_and_goes_back_unchanged(server: PlayServer) -> None:
    game = DiplomacyGame(1902)
    game.step({"FRANCE": ("A PAR - BUR",), "GERMANY": ("A MUN - BUR",)})
    status, answer = server.request("POST", "/api/load", game.saved().encode())
    assert status == 200, answer
    line = json.loads(answer)["id"]
    saved = json.loads(server.request("GET", f"/api/lines/{line}/game")[1])
    (server.games_dir.parent / "back.json").write_text(json.dumps(saved))
    again = DiplomacyGame.load(server.games_dir.parent / "back.json", 1902)
    assert again.hash() == game.hash()
    assert again.position == game.position
    assert again.position.past == game.position.past
    assert saved["entente"]["seats"]["FRANCE"]["player"] == "person"


def test_another_server_does_not_take_the_folder(server: PlayServer) -> None:
    second = PlayServer(server.games_dir)
    with pytest.raises(AssertionError, match="another server plays in"):
        second.start()
    assert second.process is not None
    assert second.process.wait(60) == 2


def test_ctrl_c_ends_a_server_with_open_streams(tmp_path: Path) -> None:
    with PlayServer(tmp_path / "games", "--default", "hold") as own:
        connection = HTTPConnection("127.0.0.1", own.port, timeout=60)
        connection.request("GET", "/api/events", headers={"Cookie": own.cookie})
        stream = connection.getresponse()
        assert stream.readline() == b"retry: 1000\n"
        assert own.interrupt() == 130
        assert own.said().endswith("stopped\n")
        assert stream.read().endswith(b"\n")
        connection.close()
