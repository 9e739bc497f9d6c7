"""A tree of jobs, as one batch of calls.

A flow is inserted in one transaction: each parent before its children, since a
child's add asks for the parent; then one release for each parent, since a child
that was there already may be done. Ids are made here, because children name
their parent before the server has seen it.

Source: protocol spec 02 section 3.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import attrs

from .call import Batch
from .calls.add import add_job, release_parent
from .errors import EchoMQError, FlowFailed, InvalidOption, UsageError
from .hash_slots import check_together, key_slot
from .job import Job
from .keys import DEFAULT_PREFIX, Keys
from .options import Parent, check_job_id, job_options

__all__ = ["Flow", "FlowNode", "FlowTree", "build_flow", "chain", "read_flow"]

MAX_LEVELS = 100
"""Deepest flow that is accepted."""


@attrs.frozen(kw_only=True)
class FlowNode:
    """One job of a flow, as the user describes it.

    Attributes:
        queue: Name of its queue.
        name: What kind of work it is.
        data: Any JSON value.
        options: By name, see :class:`~echomq.options.JobOptions`.
        children: Jobs that must finish before this one runs.
        prefix: Name space of its queue; None: that of the whole flow.
    """

    queue: str
    name: str
    data: object = None
    options: Mapping[str, Any] = attrs.field(factory=dict)
    children: Sequence["FlowNode"] = ()
    prefix: str | None = None


@attrs.frozen
class FlowTree:
    """One job of a flow with its children."""

    job: Job
    children: tuple["FlowTree", ...] = ()

    def jobs(self) -> Iterator[Job]:
        """Go through all jobs, each parent before its children."""
        return (node.job for node in self.nodes())

    def nodes(self) -> "Iterator[FlowTree]":
        """Go through the trees of all jobs, each parent before its children."""
        stack = [self]
        while stack:
            node = stack.pop()
            yield node
            stack += reversed(node.children)


@attrs.frozen
class Flow:
    """Flows, ready to be sent.

    Attributes:
        trees: One for each root.
        jobs: All of theirs, in the order of the batch.
        batch: Sends all of them; its outcomes go to :func:`read_flow`.
    """

    trees: tuple[FlowTree, ...]
    jobs: tuple[Job, ...]
    batch: Batch

    def with_jobs(self, jobs: Iterable[Job]) -> "Flow":
        """Return the same flows with other jobs, whose ids and queues are the same.

        Args:
            jobs: In the order of ``jobs``.
        """
        left = iter(jobs)
        trees = tuple(_renewed(tree, left) for tree in self.trees)
        return _flow(trees, self.batch.requests[len(self.jobs) :])

    @property
    def is_spread(self) -> bool:
        """Whether its queues live on more than one slot, which a cluster cannot serve in one transaction."""
        return len({key_slot(job.keys.base) for job in self.jobs}) > 1

    def refuse_spread(self) -> None:
        """Refuse a flow whose queues live on different slots of a cluster.

        Raises:
            UsageError: They do, or a queue has no hash tag; names two of them.
        """
        first = self.jobs[0].keys
        for job in self.jobs:
            if key_slot(job.keys.base) != key_slot(first.base):
                raise UsageError(
                    f"queues {first.qualified_name!r} and {job.keys.qualified_name!r} of one flow live on different "
                    "slots of the cluster; give both the same hash tag, such as the prefix '{bull}'"
                )
        check_together(self.jobs)


def build_flow(
    *roots: FlowNode,
    now_ms: int,
    new_id: Callable[[], str],
    prefix: str = DEFAULT_PREFIX,
    defaults: Mapping[str, Mapping[str, Any]] | None = None,
) -> Flow:
    """Return the calls that insert some flows.

    Args:
        roots: The trees.
        now_ms: The present.
        new_id: Makes an id for a job that has none; no colons.
        prefix: Name space of queues that name none.
        defaults: Job options by queue name; those of a node win.

    Raises:
        InvalidOption: A node's option is not possible, or a deduplication id is on a job with children.
        NotEncodable: A node's data is not strict JSON.

    Source: protocol spec 02 section 3; 05 section 2.
    """
    build = _Builder(now_ms, new_id, prefix, defaults or {})
    trees = tuple(build.tree(root) for root in roots)
    return _flow(trees, [release_parent(Keys.of_job(parent.key)[0], parent.id, now_ms) for parent in build.parents])


def _flow(trees: tuple[FlowTree, ...], releases: Sequence[Any]) -> Flow:
    nodes = [node for tree in trees for node in tree.nodes()]
    adds = [add_job(node.job, defer=True, has_children=bool(node.children)) for node in nodes]
    return Flow(trees, tuple(node.job for node in nodes), Batch(requests=(*adds, *releases), atomic=True))


def _renewed(tree: FlowTree, jobs: Iterator[Job]) -> FlowTree:
    return FlowTree(next(jobs), tuple(_renewed(child, jobs) for child in tree.children))


def _check_node(node: object) -> None:
    if not isinstance(node, FlowNode):
        raise InvalidOption("flow", f"expected FlowNode(queue=..., name=...), not {type(node).__name__}")


@attrs.define
class _Builder:
    now_ms: int
    new_id: Callable[[], str]
    prefix: str
    defaults: Mapping[str, Mapping[str, Any]]
    parents: dict[Parent, None] = attrs.field(factory=dict)

    def tree(self, node: FlowNode, parent: Parent | None = None, level: int = 1) -> FlowTree:
        """Take in a node and all below it, parents first."""
        _check_node(node)
        if level > MAX_LEVELS:
            raise InvalidOption("children", f"a flow has at most {MAX_LEVELS} levels, and does not contain itself")
        job = self._job(node, parent)
        if job.options.parent is not None:
            self.parents[job.options.parent] = None
        below = Parent(job.id, job.keys.qualified_name) if node.children else None
        return FlowTree(job, tuple(self.tree(child, below, level + 1) for child in node.children))

    def _job(self, node: FlowNode, parent: Parent | None) -> Job:
        keys = Keys(node.queue, node.prefix or self.prefix)
        given = {**self.defaults.get(node.queue, {}), **node.options}
        if parent is not None:
            given["parent"] = parent
        options = job_options(**given)
        if options.deduplication is not None and node.children:
            raise InvalidOption("deduplication", f"does not go with children, but job {node.name!r} has some")
        if options.job_id is not None:
            check_job_id(options.job_id, in_flow=bool(parent or node.children))
        job = Job.from_options(keys, node.name, node.data, options, self.now_ms)
        return job if job.id else attrs.evolve(job, id=self.new_id())


def read_flow(flow: Flow, outcomes: Sequence[Any]) -> tuple[FlowTree, ...]:
    """Return the trees of a flow that was sent.

    Args:
        flow: As built.
        outcomes: Of its batch.

    Raises:
        FlowFailed: The server declined some jobs; a transaction is not undone, so the others are there.

    Source: protocol spec 02 section 3, end.
    """
    refused = [(job, outcome) for job, outcome in zip(flow.jobs, outcomes, strict=False) if _is_error(outcome)]
    if refused:
        lacking = {job.parent_key for job, _ in refused} - {job.key for job, _ in refused}
        incomplete = [job for job in flow.jobs if job.key in lacking]
        raise FlowFailed({job.key: outcome for job, outcome in refused}, incomplete)
    for outcome in filter(_is_error, outcomes):
        raise outcome
    return flow.trees


def _is_error(outcome: object) -> bool:
    return isinstance(outcome, EchoMQError)


def chain(*nodes: FlowNode) -> FlowNode:
    """Return a flow in which jobs run one after the other: the first one first, the last one last.

    Each finds the result of the one before among the values of its children. A
    node may have children of its own, which run before it too.

    Args:
        *nodes: At least one.

    Raises:
        UsageError: There is none.
    """
    if not nodes:
        raise UsageError("a chain has at least one job, but none was given")
    first, *others = nodes
    for node in others:
        first = attrs.evolve(node, children=(*node.children, first))
    return first
