"""What a failed call of the replay server's client says, also about a server with a long address."""

from __future__ import annotations

from collections.abc import Callable
from typing import NoReturn

import pytest
from redis.exceptions import ConnectionError, OutOfMemoryError, RedisError, ResponseError

from services.replay.buffer import ReplayError
from services.replay.redis_store.connection import Connection

URL = f"rediss://:pw@{'replay.' * 16}example.org:6380/0?ssl_check_hostname=true"
ENDLESS = " on @user_script:17" * 50


def failing(error: RedisError) -> Callable[[], NoReturn]:
    def operation() -> NoReturn:
        raise error

    return operation


@pytest.mark.parametrize(
    ("error", "advice"),
    [
        (ConnectionError("Error 111 connecting" + ENDLESS), "is it running and reachable"),
        (OutOfMemoryError("OOM command not allowed" + ENDLESS), "raise its maxmemory, or checkpoint more often"),
        (ResponseError("WRONGTYPE Operation" + ENDLESS), "find it by TYPE, remove it by DEL, and go on with the run"),
    ],
)
def test_the_servers_own_text_leaves_room_for_what_to_do(error: RedisError, advice: str) -> None:
    connection = Connection(URL, connect_timeout_s=0.01)
    with pytest.raises(ReplayError) as raised:
        connection.call("read what was not acknowledged", failing(error))
    assert advice in str(raised.value)
    assert len(str(raised.value)) <= 500
