from collections.abc import Iterator

import pytest

from tests.system.support.endpoint_thread import endpoint_in_a_thread, first_legal_orders
from tests.unit.services.inference.chat_endpoint.endpoint_server import FakeEndpoint


@pytest.fixture
def chat_endpoint() -> Iterator[FakeEndpoint]:
    """An endpoint that always takes the first legal order."""
    with endpoint_in_a_thread(first_legal_orders) as endpoint:
        yield endpoint
