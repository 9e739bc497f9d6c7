"""Operations on parents and children that take several calls.

Source: protocol spec 02 section 3; 03 section 4; 05 section 10.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import attrs

from . import codec, replies
from .call import Command, ScriptCall
from .calls.family import (
    Children,
    ChildrenPage,
    DependencyCounts,
    get_dependency_counts,
    remove_child_dependency,
    scan_children,
)
from .calls.pages import paginate
from .calls.query import get_job, get_state
from .calls.remove import count_existing
from .checks import whole
from .errors import FlowFailed, InvalidOption, JobNotFound, ParentConflict
from .flow import MAX_LEVELS, Flow, FlowTree, read_flow
from .flow_view import FlowView
from .job import Job
from .keys import Keys
from .plans import Plan, ask_all
from .states import JobState

__all__ = ["ChildrenSlice", "add_flow", "detach", "list_children", "view_flow"]

_KINDS: tuple[Children, ...] = ("processed", "unprocessed", "ignored", "failed")


def add_flow(flow: Flow) -> Plan[tuple[FlowTree, ...]]:
    """Add flows in one transaction, and look at each reply.

    A transaction is not undone, and a parent whose child was refused would wait for
    ever. So children with ids of the user's own are asked about before.

    Raises:
        FlowFailed: A child belongs to another parent, or a root's parent does not exist. Nothing
            was added, unless another producer was faster; then ``incomplete`` tells what to care for.
    """
    named = [job for job in flow.jobs if job.parent_key is not None and job.options.job_id is not None]
    if named:
        yield from _refuse_claimed(named)
    outcomes = yield flow.batch
    return read_flow(flow, outcomes)


def _refuse_claimed(children: Sequence[Job]) -> Plan[None]:
    asked = yield from ask_all([_parent_key(job.key) for job in children])
    claimed = [
        (job, parent) for job, parent in zip(children, asked, strict=True) if parent not in (None, job.parent_key)
    ]
    if not claimed:
        return
    living = yield from ask_all([count_existing([parent]) for _, parent in claimed])
    conflicts = {
        job.key: ParentConflict("add", job.id) for (job, _), lives in zip(claimed, living, strict=True) if lives
    }
    if conflicts:
        raise FlowFailed(conflicts, (), is_sent=False)


def _parent_key(job_key: str) -> Command[str | None]:
    return Command(parts=("HGET", job_key, "parentKey"), decode=replies.optional_text, repeatable=True)


def detach(keys: Keys, job_id: str) -> Plan[bool]:
    """Detach a child from its parent; False if it has none that waits for it.

    Raises:
        JobNotFound: There is no such job.
    """
    parent_key = yield _parent_key(keys.job(job_id))
    if parent_key is None:
        if not (yield count_existing([keys.job(job_id)])):
            raise JobNotFound("removeChildDependency", job_id)
        return False
    found: bool = yield remove_child_dependency(keys, job_id, parent_key)
    return found


@attrs.frozen(kw_only=True)
class ChildrenSlice:
    """Children of one kind, by their place among all of that kind.

    Attributes:
        items: Child key -> result of a processed child, reason of an ignored failure, None for the others.
        jobs: Child key -> its job, unless that was removed.
        total: How many children of the kind there are.
    """

    items: dict[str, Any]
    jobs: dict[str, Job]
    total: int


def list_children(keys: Keys, job_id: str, which: Children, start: int, end: int) -> Plan[ChildrenSlice]:
    """Read some children of a job, in the server's order, with their jobs.

    Args:
        keys: Queue of the parent.
        job_id: The parent.
        which: ``"processed"``, ``"unprocessed"`` or ``"ignored"``.
        start: First place, from 0.
        end: Last place; -1 for all.

    Raises:
        InvalidOption: An argument is not possible.

    Source: protocol spec 04 section 3.7.
    """
    places = {"processed": keys.processed, "unprocessed": keys.dependencies, "ignored": keys.failed_children}
    if which not in places:
        raise InvalidOption("which", f"expected one of {', '.join(places)}, not {which!r}")
    whole("start", start)
    whole("end", end, -1)
    items: dict[str, Any] = {}
    jobs: dict[str, Job] = {}
    cursor, offset = "0", 0
    while True:
        page = yield paginate(
            places[which](job_id), start + len(items), end, cursor=cursor, offset=offset, fetch_jobs=True
        )
        items.update(page.items)
        jobs.update(page.jobs)
        cursor, offset = page.cursor, page.offset
        if cursor == "0" or (end >= 0 and start + len(items) > end):
            break
    if which == "processed":
        items = {key: codec.decode_json(value) for key, value in items.items()}
    return ChildrenSlice(items=items, jobs=jobs, total=page.total)


@attrs.define
class _Seen:
    """A job as it was read, before its children are."""

    job: Job | None
    state: JobState
    counts: DependencyCounts
    children: dict[str, tuple[Children, Any]] = attrs.field(factory=dict)


def view_flow(keys: Keys, job_id: str, *, depth: int, max_children: int) -> Plan[FlowView | None]:
    """Read a job with its children, theirs, and so on, level by level; None if there is no such job.

    Args:
        keys: Queue of the root.
        job_id: The root.
        depth: How many levels, the root's included.
        max_children: Most children of each kind that are read for one job.

    Raises:
        InvalidOption: A limit is below 1, or there are more levels than a flow can have.
    """
    whole("depth", depth, 1, MAX_LEVELS)
    whole("max_children", max_children, 1)
    seen: dict[str, _Seen] = {}
    level = [keys.job(job_id)]
    for left in reversed(range(depth)):
        seen.update((yield from _read_level(level, max_children if left else 0)))
        level = [key for parent in level for key in seen[parent].children if key not in seen]
        if not level:
            break
    root = seen[keys.job(job_id)]
    return None if root.job is None else _view(keys.job(job_id), seen)


def _read_level(level: Sequence[str], max_children: int) -> Plan[dict[str, _Seen]]:
    places = [Keys.of_job(key) for key in level]
    requests: list[ScriptCall[Any] | Command[Any]] = []
    for keys, job_id in places:
        requests += (get_job(keys, job_id), get_state(keys, job_id), get_dependency_counts(keys, job_id))
    outcomes = iter((yield from ask_all(requests)))
    seen = {key: _Seen(*parts) for key, parts in zip(level, zip(*[outcomes] * 3, strict=True), strict=True)}
    parents = [key for key in level if max_children and seen[key].counts.total]
    pages = [scan_children(*Keys.of_job(key), kind, "0", max_children) for key in parents for kind in _KINDS]
    if pages:
        found = iter((yield from ask_all(pages)))
        for key in parents:
            seen[key].children = _children(zip(_KINDS, found, strict=False), max_children)
    return seen


def _children(pages: Any, max_children: int) -> dict[str, tuple[Children, Any]]:
    children: dict[str, tuple[Children, Any]] = {}
    kind: Children
    page: ChildrenPage
    for kind, page in pages:
        children.update({key: (kind, value) for key, value in list(page.items.items())[:max_children]})
    return children


def _view(key: str, seen: Mapping[str, _Seen], relation: Children | None = None, value: Any = None) -> FlowView:
    one = seen[key]
    return FlowView(
        key=key,
        job=one.job,
        state=one.state,
        counts=one.counts,
        relation=relation,
        value=value,
        children=tuple(_view(child, seen, *link) for child, link in one.children.items() if child in seen),
    )
