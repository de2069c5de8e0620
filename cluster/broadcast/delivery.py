"""What a rollout actor gets instead of a reference to weights, if its node takes part in a broadcast."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from services.weights.payload import Payload


@dataclass(frozen=True, slots=True)
class Delivery:
    """The weights of a broadcast, on this node as soon as they are all there, and where they come from.

    Ray fetches references that are arguments of a call before the call, but not those inside an object: an actor
    fetches one of the two itself.
    """

    here: Any  # ray.ObjectRef of the Payload that this node receives
    origin: Any  # ray.ObjectRef of the learner's Payload
    limit_s: float  # seconds to wait for ``here``

    async def payload(self) -> Payload:
        """Return the weights from this node, or from the learner's if they do not arrive here in time.

        Raises a RayError if they are lost there too.
        """
        from ray.exceptions import RayError

        try:
            async with asyncio.timeout(self.limit_s):
                found: Payload = await self.here
        except (TimeoutError, RayError):  # the driver says why
            found = await self.origin
        return found
