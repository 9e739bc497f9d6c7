"""Each exchange with each other client: what the table of ``docs/interop.md`` shows."""

import pytest

from interop.exchanges import ABSENT, EXCHANGES, PEERS, both
from support.servers import Server


@pytest.mark.heavy
@pytest.mark.parametrize("exchange", EXCHANGES)
@pytest.mark.parametrize("peer", PEERS)
async def test_exchange(redis_server: Server, prefix: str, peer: str, exchange: str) -> None:
    """Both sides of one queue do together what the name of the exchange says (pain 53)."""
    if reason := ABSENT.get((PEERS[peer], exchange)):
        pytest.skip(reason)
    async with both(PEERS[peer], redis_server, prefix) as sides:
        await EXCHANGES[exchange](sides)
