"""Find the workers and the readers of events of a queue among the server's clients.

Their blocking connections carry the queue in their names, in all runtimes alike.

Source: protocol spec 05 sections 1 and 10.
"""

from collections.abc import Mapping
from urllib.parse import unquote

import attrs

from echomq import codec, replies
from echomq.call import Command, Reply
from echomq.keys import Keys

__all__ = ["Client", "get_event_readers", "get_workers"]


@attrs.frozen(kw_only=True)
class Client:
    """A client of the server that works for a queue or reads its events.

    Attributes:
        name: Name of the worker, if it has one.
        connection_name: Name of its connection, as the server knows it.
        address: Where it connects from, ``"10.0.0.7:41890"``.
        age_s: How long it has been connected.
        idle_s: How long ago its blocking read began.
        fields: All that the server tells of the connection, as text.
    """

    name: str | None
    connection_name: str
    address: str
    age_s: int
    idle_s: int
    fields: Mapping[str, str] = attrs.field(repr=False)


def get_workers(keys: Keys) -> Command[list[Client]]:
    """List the workers of a queue that are connected. Repeatable: it only reads."""
    own = keys.client_name()
    return Command(parts=("CLIENT", "LIST"), decode=_Find(own, f"{own}:w:"), repeatable=True, near=keys.marker)


def get_event_readers(keys: Keys) -> Command[list[Client]]:
    """List the readers of a queue's events that are connected. Repeatable: it only reads."""
    find = _Find(f"{keys.client_name()}:qe", None)
    return Command(parts=("CLIENT", "LIST"), decode=find, repeatable=True, near=keys.events)


@attrs.frozen
class _Find:
    exact: str
    beginning: str | None

    def __call__(self, reply: Reply) -> list[Client]:
        found = []
        for line in replies.text(reply).splitlines():
            fields = dict(field.partition("=")[::2] for field in line.split(" ") if field)
            connection_name = fields.get("name", "")
            if connection_name == self.exact:
                found.append(_client(fields, None))
            elif self.beginning is not None and connection_name.startswith(self.beginning):
                found.append(_client(fields, unquote(connection_name[len(self.beginning) :])))
        return found


def _client(fields: Mapping[str, str], name: str | None) -> Client:
    return Client(
        name=name,
        connection_name=fields["name"],
        address=fields.get("addr", ""),
        age_s=codec.lenient_int(fields.get("age", "")) or 0,
        idle_s=codec.lenient_int(fields.get("idle", "")) or 0,
        fields=fields,
    )
