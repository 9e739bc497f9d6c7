"""What happens in a queue, blocking: read on and on, or called back.

The twin of :mod:`echomq.aio.queue_events`, which says what everything means.
Starts no thread: reading happens in the thread that reads or calls ``run``;
``close`` ends it from any other.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from typing import TYPE_CHECKING, Any, TypeVar, overload

from echomq.calls.events import newest_id, publish_event, read_events
from echomq.chance import dice
from echomq.checks import whole
from echomq.closing import closed
from echomq.entries import Listeners, check_own, start_id
from echomq.errors import ConnectionClosed, EchoMQError, UsageError
from echomq.events import Event
from echomq.hash_slots import check_queue
from echomq.keys import DEFAULT_PREFIX, Keys
from echomq.moments import duration_ms
from echomq.scheduling.settling import is_passing
from echomq.scheduling.timing import pause_ms

from .connecting import connect
from .exclusive import Exclusive
from .run import is_open

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from types import TracebackType

    from typing_extensions import Self

    from echomq.call import Command
    from echomq.driver import Connection, ConnectionSource
    from echomq.moments import Duration

__all__ = ["QueueEvents", "QueueEventsProducer"]

T = TypeVar("T")
E = TypeVar("E", bound=Event)

_log = logging.getLogger("echomq.events")


class QueueEvents:
    """The events of one queue: ``for event in events``, or listeners and :meth:`run`.

    ``with`` fixes where it begins, see :meth:`ready`. Nothing is read before it is asked for.

    Args:
        queue: Name of the queue.
        connection: A URL, options, a ready client, or an open connection, which is not closed here.
            None takes the URL from ``ECHOMQ_URL``.
        prefix: Name space of the queue.
        last_event_id: Begin after this event; ``"0-0"`` for all that the log still holds. None: with
            what happens from now on.
        block: How long one read waits at the server, in ms or as ``timedelta``; the next one follows at once.

    Raises:
        InvalidOption: A name, the id or the time is not acceptable.
        DriverMissing: No installed driver serves the connection.

    Attributes:
        keys: Names of all keys of the queue.
    """

    def __init__(
        self,
        queue: str,
        connection: ConnectionSource = None,
        *,
        prefix: str = DEFAULT_PREFIX,
        last_event_id: str | None = None,
        block: Duration = 10_000,
    ) -> None:
        self.keys = Keys(queue, prefix)
        self._last_id = start_id(last_event_id)
        self._block_ms = duration_ms("block", block, minimum=1)
        source = connection if is_open(connection) else connect(connection)
        if source.is_cluster:
            check_queue(self.keys)
        self._link: Connection = source.dedicated(name=f"{self.keys.client_name()}:qe")
        self._listeners = Listeners()
        self._fetched: deque[Event] = deque()
        self._reading = Exclusive()
        self._closed = threading.Event()

    @property
    def last_event_id(self) -> str | None:
        """Id of the last event handed out, from which another reader can go on; None before :meth:`ready`."""
        return self._last_id

    def __enter__(self) -> Self:
        self.ready()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def ready(self) -> None:
        """Fix where reading begins: whatever happens after this returned will be read.

        Raises:
            ConnectionClosed: It is closed already.
            DriverError: The server cannot be reached.
        """
        self._refuse_if_closed()
        if self._last_id is None:
            self._last_id = self._link.send(newest_id(self.keys))

    def __iter__(self) -> Self:
        """Return itself.

        Raises:
            ConnectionClosed: It is closed already.
        """
        self._refuse_if_closed()
        return self

    def __next__(self) -> Event:
        """Return the next event, and wait for it; ends when :meth:`close` is called.

        Outages are waited out. An entry that cannot be read comes as :class:`~echomq.events.Broken`.

        Raises:
            UsageError: Another thread reads here already.
            ConnectionClosed: The owner of the connection closed it.
            ServerRefused: The server will not let us read.
        """
        while not self._fetched and not self._closed.is_set():
            self._fetched.extend(self._read())
        if self._closed.is_set():
            raise StopIteration
        event = self._fetched.popleft()
        self._last_id = event.id
        return event

    def run(self) -> None:
        """Read events and call their listeners, one after the other, until :meth:`close` is called.

        What a listener raises is logged, and reading goes on.

        Raises:
            UsageError, ConnectionClosed, ServerRefused: As when iterating.
        """
        for event in self:
            for listener in self._listeners.of(event):
                self._call(listener, event)

    @overload
    def on(self, kind: type[E], listener: Callable[[E], Any]) -> None: ...

    @overload
    def on(self, kind: str, listener: Callable[[Any], Any]) -> None: ...

    def on(self, kind: type[Any] | str, listener: Callable[[Any], Any]) -> None:
        """Let :meth:`run` call a listener for each event of a kind.

        Args:
            kind: A class of :mod:`echomq.events`, or a name: ``"completed"``, or that of an own event.
            listener: Called with the event.

        Raises:
            InvalidOption: ``kind`` is neither.
        """
        self._listeners.add(kind, listener)

    def off(self, kind: type[Any] | str, listener: Callable[[Any], Any]) -> None:
        """Call a listener no longer."""
        self._listeners.remove(kind, listener)

    def close(self) -> None:
        """End reading at once, and the loops that do it. Twice does no harm."""
        self._closed.set()
        self._link.close()

    # -- reading --------------------------------------------------------------------------------

    def _refuse_if_closed(self) -> None:
        if self._closed.is_set():
            raise ConnectionClosed(f"the events of queue {self.keys.queue!r} are closed; make another QueueEvents")

    def _read(self) -> list[Event]:
        problem = "these events are being read by another thread; make a QueueEvents for each reader"
        return self._reading.do(self._read_until_closed, wait_s=0, late=lambda: UsageError(problem))

    def _read_until_closed(self) -> list[Event]:
        try:
            return self._read_on()
        except ConnectionClosed:
            if self._closed.is_set():
                return []
            raise

    def _read_on(self) -> list[Event]:
        failures = 0
        while True:
            try:
                self.ready()
                return self._link.send(read_events(self.keys, self._last_id or "", self._block_ms))
            except EchoMQError as error:
                if not is_passing(error):
                    raise
                failures += 1
                if failures == 1:
                    _log.warning("reading the events of queue %s goes on after an outage: %s", self.keys.queue, error)
                self._closed.wait(pause_ms(failures, dice()) / 1000)

    def _call(self, listener: Callable[[Any], Any], event: Event) -> None:
        try:
            listener(event)
        except Exception:  # noqa: BLE001  # a listener must not end the reading
            _log.exception("a listener for %s raised", type(event).__name__)


class QueueEventsProducer:
    """Publishes events of your own in a queue's log, for all who read it.

    Args:
        queue: Name of the queue.
        connection: A URL, options, a ready client, or an open connection, which stays open. None takes
            the URL from ``ECHOMQ_URL``.
        prefix: Name space of the queue.
        max_events: Length at which the log is trimmed, about; that of the queue, so that nobody misses events.

    Raises:
        InvalidOption: A name or the length is not acceptable.
        DriverMissing: No installed driver serves the connection.
    """

    def __init__(
        self,
        queue: str,
        connection: ConnectionSource = None,
        *,
        prefix: str = DEFAULT_PREFIX,
        max_events: int = 10_000,
    ) -> None:
        self.keys = Keys(queue, prefix)
        self._max_events = max_events
        whole("max_events", max_events, 1)
        self._is_owner = not is_open(connection)
        self._connection: Connection = connect(connection) if self._is_owner else connection

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def publish(self, name: str, fields: Mapping[str, str | int | float] | None = None) -> str:
        """Publish an event, and return its id.

        Args:
            name: Of your own, none that queues use themselves.
            fields: Text and numbers; readers get all of them as text.

        Raises:
            InvalidOption: The name is a queue's own, or a value is neither text nor a number.
            DriverError: The server was not reached, or refused.
        """
        call: Command[str] = publish_event(self.keys, name, check_own(name, fields or {}), self._max_events)
        return self._connection.send(call)

    def close(self) -> None:
        """Close the connection, if it was made here; nothing can be sent any more. Twice does no harm."""
        if self._is_owner:
            self._is_owner = False
            self._connection.close()
        self._connection = closed(f"this QueueEventsProducer of queue {self.keys.queue!r}")
