"""Add and read flows, blocking; the twin of :mod:`echomq.aio.flow_producer`."""

from __future__ import annotations

from typing import TYPE_CHECKING
from uuid import uuid4

from echomq import family, middleware, plans, plugins
from echomq.calls.add import release_parent
from echomq.clock import wall_ms
from echomq.closing import closed
from echomq.extensions import report
from echomq.flow import build_flow
from echomq.keys import DEFAULT_PREFIX, Keys

from .connecting import connect
from .run import is_open, perform

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from types import TracebackType

    from typing_extensions import Self

    from echomq.driver import Connection, ConnectionSource
    from echomq.flow import Flow, FlowNode, FlowTree
    from echomq.flow_view import FlowView
    from echomq.job import Job
    from echomq.keywords import JobKeywords

__all__ = ["FlowProducer"]


class FlowProducer:
    """Adds flows to any queues of one server.

    Args:
        connection: A URL, options, a ready client, or an open connection, which stays open. None takes
            the URL from ``ECHOMQ_URL``.
        prefix: Name space of queues that name none; with a hash tag (``"{bull}"``) for clusters.
        default_job_options: For each queue by its name, options of new jobs that do not say otherwise.

    Raises:
        InvalidOption, UnknownOption: A default is not acceptable.
        DriverMissing: No installed driver serves the connection.
    """

    def __init__(
        self,
        connection: ConnectionSource = None,
        *,
        prefix: str = DEFAULT_PREFIX,
        default_job_options: Mapping[str, JobKeywords] | None = None,
    ) -> None:
        given = default_job_options or {}
        self._defaults = {queue: plans.checked_defaults(options) for queue, options in given.items()}
        self._prefix = prefix
        self._is_owner = not is_open(connection)
        self._connection: Connection = connect(connection) if self._is_owner else connection

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection, if it was made here; nothing can be sent any more. Twice does no harm."""
        if self._is_owner:
            self._is_owner = False
            self._connection.close()
        self._connection = closed("this FlowProducer")

    def add(self, tree: FlowNode) -> FlowTree:
        """Add a flow, all its jobs in one transaction.

        Args:
            tree: The job that runs last, with its children.

        Returns:
            The same tree, of jobs with their ids.

        Raises:
            UsageError: A node is not acceptable, or a cluster cannot hold the flow; nothing was sent.
            FlowFailed: The server declined some jobs; tells which, and what to do.
            DriverError: The server was not reached within the deadline, or refused.
        """
        (added,) = self.add_bulk([tree])
        return added

    def add_bulk(self, trees: Iterable[FlowNode]) -> list[FlowTree]:
        """Add several flows, all in one transaction; as :meth:`add`."""
        flow = build_flow(
            *trees,
            now_ms=wall_ms(),
            new_id=lambda: str(uuid4()),
            prefix=self._prefix,
            defaults=self._defaults,
        )
        if not flow.trees:
            return []
        self._check_slots(flow)
        layers, around = plugins.extensions().add_layers, plugins.extensions().operation_layers
        if layers or around:
            return list(perform(self._connection, middleware.add_flow(layers, flow, report, around=around)))
        return list(perform(self._connection, family.add_flow(flow)))

    def get_flow(
        self, queue: str, job_id: str, *, prefix: str | None = None, depth: int = 10, max_children: int = 20
    ) -> FlowView | None:
        """Read a flow as it is now; ``print`` it to see the tree, and what holds it up.

        Args:
            queue: Queue of the root.
            job_id: The root.
            prefix: Name space of that queue; None: that of the producer.
            depth: How many levels, the root's included.
            max_children: Most children of each kind (processed, unprocessed, ignored, failed) of one job.

        Returns:
            The root with what is below it; None if there is no such job.

        Raises:
            InvalidOption: A limit is below 1.
        """
        keys = Keys(queue, prefix or self._prefix)
        return perform(self._connection, family.view_flow(keys, job_id, depth=depth, max_children=max_children))

    def release(self, job: Job) -> None:
        """Let a job run that waits for children though none is pending, as after :class:`~echomq.FlowFailed`."""
        self._connection.send(release_parent(job.keys, job.id, wall_ms()))

    def _check_slots(self, flow: Flow) -> None:
        if self._connection.is_cluster or (flow.is_spread and self._connection.server().is_cluster):
            flow.refuse_spread()
