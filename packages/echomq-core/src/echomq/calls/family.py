"""Parents and children of a flow.

``release_parent`` is in :mod:`echomq.calls.add`, since it ends an insert.

Source: protocol spec 03 sections 3.10, 3.12, 3.13 and 4.
"""

from typing import Any, Literal, TypeAlias

import attrs

from echomq import codec, replies
from echomq.call import Command, Reply, ScriptCall
from echomq.checks import whole
from echomq.errors import InvalidOption
from echomq.keys import Keys

__all__ = [
    "Children",
    "ChildrenPage",
    "DependencyCounts",
    "get_children_values",
    "get_dependency_counts",
    "get_failed_children",
    "get_ignored_failures",
    "get_pending_children",
    "remove_child_dependency",
    "remove_unprocessed_children",
    "scan_children",
]

Children: TypeAlias = Literal["processed", "unprocessed", "ignored", "failed"]
"""Which children of a job; meanings in :class:`DependencyCounts`."""


@attrs.frozen(kw_only=True)
class DependencyCounts:
    """How many children of a job are where.

    Attributes:
        processed: Completed.
        unprocessed: Not finished, or failed without a policy.
        ignored: Failed, and the parent goes on.
        failed: Failed, and the parent fails with them.
    """

    processed: int
    unprocessed: int
    ignored: int
    failed: int

    @property
    def total(self) -> int:
        """All children."""
        return self.processed + self.unprocessed + self.ignored + self.failed


def get_dependency_counts(keys: Keys, job_id: str) -> ScriptCall[DependencyCounts]:
    """Count the children of a job. Repeatable: it only reads."""
    return ScriptCall(
        script="getDependencyCounts",
        keys=(
            *(keys.processed(job_id), keys.dependencies(job_id)),
            *(keys.failed_children(job_id), keys.unsuccessful(job_id)),
        ),
        args=("processed", "unprocessed", "ignored", "failed"),
        decode=_read_counts,
        repeatable=True,
    )


def _read_counts(reply: Reply) -> DependencyCounts:
    if not isinstance(reply, (list, tuple)) or len(reply) != 4:
        raise replies.unexpected(reply, "four counts")
    processed, unprocessed, ignored, failed = map(replies.number, reply)
    return DependencyCounts(processed=processed, unprocessed=unprocessed, ignored=ignored, failed=failed)


def get_children_values(keys: Keys, job_id: str) -> Command[dict[str, Any]]:
    """Read the results of a job's completed children, by child key.

    Raises:
        ProtocolError: By ``decode``; another client stored a result that is not JSON.
    """
    return Command(parts=("HGETALL", keys.processed(job_id)), decode=_read_values, repeatable=True)


def _read_values(reply: Reply) -> dict[str, Any]:
    return {key: codec.decode_json(value) for key, value in replies.pairs(reply).items()}


def get_ignored_failures(keys: Keys, job_id: str) -> Command[dict[str, str]]:
    """Read why children failed whose failure the job ignores, by child key."""
    return Command(parts=("HGETALL", keys.failed_children(job_id)), decode=replies.pairs, repeatable=True)


def get_pending_children(keys: Keys, job_id: str) -> Command[list[str]]:
    """Read the keys of a job's children that are not finished, or failed without a policy."""
    return Command(parts=("SMEMBERS", keys.dependencies(job_id)), decode=replies.texts, repeatable=True)


def get_failed_children(keys: Keys, job_id: str) -> Command[list[str]]:
    """Read the keys of a job's children that failed and fail the job with them, oldest failure first."""
    return Command(parts=("ZRANGE", keys.unsuccessful(job_id), 0, -1), decode=replies.texts, repeatable=True)


def _is_zero(reply: Reply) -> bool:
    return replies.number(reply) == 0


@attrs.frozen(kw_only=True)
class ChildrenPage:
    """Some children of a job.

    Attributes:
        items: Child key -> result of a processed child, reason of an ignored failure, None for the others.
        cursor: Hand it in again to go on; ``"0"``: there are no more.
    """

    items: dict[str, Any]
    cursor: str


def scan_children(keys: Keys, job_id: str, which: Children, cursor: str, count: int) -> Command[ChildrenPage]:
    """Read a page of a job's children.

    Args:
        keys: The queue.
        job_id: The parent.
        which: Which children.
        cursor: ``"0"`` to begin, then that of the page before.
        count: About how many; a server brings small collections whole.

    Raises:
        InvalidOption: An argument is not possible.

    Source: protocol spec 05 section 10, getDependencies.
    """
    whole("count", count, 1)
    if not isinstance(cursor, str) or not cursor.isdecimal():
        raise InvalidOption("cursor", f"expected '0', or the cursor of the page before, not {cursor!r}")
    if which == "failed":
        last = int(cursor) + count - 1
        parts = ("ZRANGE", keys.unsuccessful(job_id), int(cursor), last)
        return Command(parts=parts, decode=_ReadSlice(last + 1, count), repeatable=True)
    if which not in _SCANS:
        raise InvalidOption("which", f"expected one of {', '.join((*_SCANS, 'failed'))}, not {which!r}")
    command, read = _SCANS[which]
    key = {"processed": keys.processed, "ignored": keys.failed_children, "unprocessed": keys.dependencies}[which]
    return Command(parts=(command, key(job_id), cursor, "COUNT", count), decode=read, repeatable=True)


@attrs.frozen
class _ReadSlice:
    next_index: int
    count: int

    def __call__(self, reply: Reply) -> ChildrenPage:
        found = replies.texts(reply)
        return ChildrenPage(
            items=dict.fromkeys(found), cursor=str(self.next_index) if len(found) == self.count else "0"
        )


def _read_scan(reply: Reply) -> tuple[str, Reply]:
    if not isinstance(reply, (list, tuple)) or len(reply) != 2:
        raise replies.unexpected(reply, "a cursor and a page")
    return replies.text(reply[0]), reply[1]


def _read_values_page(reply: Reply) -> ChildrenPage:
    cursor, page = _read_scan(reply)
    return ChildrenPage(items=_read_values(page), cursor=cursor)


def _read_reasons_page(reply: Reply) -> ChildrenPage:
    cursor, page = _read_scan(reply)
    return ChildrenPage(items=dict(replies.pairs(page)), cursor=cursor)


def _read_keys_page(reply: Reply) -> ChildrenPage:
    cursor, page = _read_scan(reply)
    return ChildrenPage(items=dict.fromkeys(replies.texts(page)), cursor=cursor)


_SCANS = {
    "processed": ("HSCAN", _read_values_page),
    "unprocessed": ("SSCAN", _read_keys_page),
    "ignored": ("HSCAN", _read_reasons_page),
}


def remove_child_dependency(keys: Keys, job_id: str, parent_key: str) -> ScriptCall[bool]:
    """Detach a child from its parent, which runs if that was the last one pending.

    Repeatable: the second run finds no relation and answers False.

    Args:
        keys: The child's queue.
        job_id: The child.
        parent_key: Key of the parent's hash.

    Returns:
        Decodes to False if the parent was not waiting for this child (any more).

    Raises:
        JobNotFound, ParentNotFound: By ``decode``; nothing was written.
    """
    return ScriptCall(
        script="removeChildDependency",
        keys=(keys.base,),
        args=(keys.job(job_id), parent_key),
        decode=replies.Checked(_is_zero, "removeChildDependency", job_id),
        repeatable=True,
    )


def remove_unprocessed_children(keys: Keys, job_id: str) -> ScriptCall[None]:
    """Remove the children of a job that have not run, with theirs; running and failed ones stay.

    Repeatable: the second run finds them gone.
    """
    return ScriptCall(
        script="removeUnprocessedChildren",
        keys=(keys.job(job_id), keys.meta),
        args=(keys.base, job_id),
        decode=replies.nothing,
        repeatable=True,
    )
