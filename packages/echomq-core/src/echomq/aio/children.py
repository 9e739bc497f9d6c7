"""What a queue tells of the children of its jobs, and does to them, for asyncio.

Methods of :class:`~echomq.Queue`.

Source: protocol spec 03 sections 3.10, 3.12, 3.13 and 4; 05 section 10.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from echomq import family
from echomq.calls import family as family_calls

if TYPE_CHECKING:
    from echomq.calls.family import Children, ChildrenPage, DependencyCounts
    from echomq.family import ChildrenSlice

    from .queue import Queue

__all__ = [
    "get_children_values",
    "get_dependencies",
    "get_dependency_counts",
    "get_ignored_failures",
    "list_children",
    "remove_child_dependency",
    "remove_unprocessed_children",
]


async def get_children_values(self: Queue, job_id: str) -> dict[str, Any]:
    """Return the results of a job's completed children, by the keys of the children.

    Raises:
        ProtocolError: Another client stored a result that is not JSON.
    """
    return await self._send(family_calls.get_children_values(self.keys, job_id))


async def get_ignored_failures(self: Queue, job_id: str) -> dict[str, str]:
    """Return why children failed whose failure the job ignores, by their keys."""
    return await self._send(family_calls.get_ignored_failures(self.keys, job_id))


async def get_dependency_counts(self: Queue, job_id: str) -> DependencyCounts:
    """Count the children of a job by what became of them."""
    return await self._send(family_calls.get_dependency_counts(self.keys, job_id))


async def get_dependencies(
    self: Queue, job_id: str, which: Children = "unprocessed", *, cursor: str = "0", count: int = 100
) -> ChildrenPage:
    """Return some children of a job; call again with the page's cursor until that is ``"0"``.

    Args:
        job_id: The parent.
        which: ``"processed"``, ``"unprocessed"``, ``"ignored"`` or ``"failed"``.
        cursor: That of the page before; ``"0"`` to begin.
        count: About how many; small collections come whole.

    Raises:
        InvalidOption: An argument is not possible.
    """
    return await self._send(family_calls.scan_children(self.keys, job_id, which, cursor, count))


async def list_children(
    self: Queue, job_id: str, which: Children = "processed", *, start: int = 0, end: int = -1
) -> ChildrenSlice:
    """Return some children of a job by their places, with their jobs.

    The order is the server's, and changes when children come and go; to see all, ask for all,
    or use :meth:`get_dependencies`.

    Args:
        job_id: The parent.
        which: ``"processed"``, ``"unprocessed"`` or ``"ignored"``.
        start: First place, from 0.
        end: Last place; -1 for all.

    Raises:
        InvalidOption: An argument is not possible.
        ProtocolError: Another client stored a result that is not JSON.
    """
    return await self._perform(family.list_children(self.keys, job_id, which, start, end))


async def remove_child_dependency(self: Queue, job_id: str) -> bool:
    """Detach a job from its parent, which runs if this was the last child it waited for.

    Returns:
        Whether the parent waited for it.

    Raises:
        JobNotFound: There is no such job.
        ParentNotFound: Its parent does not exist any more.
    """
    return await self._perform(family.detach(self.keys, job_id))


async def remove_unprocessed_children(self: Queue, job_id: str) -> None:
    """Remove the children of a job that have not run, with theirs; running and failed ones stay."""
    await self._send(family_calls.remove_unprocessed_children(self.keys, job_id))
