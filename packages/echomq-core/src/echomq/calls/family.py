"""Parents and children of a flow.

``release_parent`` is in :mod:`echomq.calls.add`, since it ends an insert.

Source: protocol spec 03 sections 3.10, 3.12, 3.13 and 4.
"""

from typing import Any

import attrs

from echomq import codec, replies
from echomq.call import Command, Reply, ScriptCall
from echomq.keys import Keys

__all__ = [
    "DependencyCounts",
    "get_children_values",
    "get_dependency_counts",
    "get_failed_children",
    "get_ignored_failures",
    "get_pending_children",
    "remove_child_dependency",
    "remove_unprocessed_children",
]


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
