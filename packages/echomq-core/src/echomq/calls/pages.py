"""Read the children of a job, page by page. Repeatable: it only reads.

Source: protocol spec 04 section 3.7.
"""

import attrs

from echomq import replies
from echomq.call import Reply, ScriptCall
from echomq.job import Job
from echomq.keys import Keys

__all__ = ["Page", "paginate"]

_SCANS = 5
"""How many scans one call may use before it answers."""


@attrs.frozen(kw_only=True)
class Page:
    """A piece of a set or hash of children.

    Attributes:
        cursor: Hand it in again to go on; ``"0"``: there is no more.
        offset: Hand it in again.
        items: Child key -> value; None for a set's members.
        total: Elements in all.
        jobs: The children's jobs, by child key, if they were asked for and exist.
    """

    cursor: str
    offset: int
    items: dict[str, str | None]
    total: int
    jobs: dict[str, Job]


def paginate(
    key: str, start: int, end: int, *, cursor: str = "0", offset: int = 0, fetch_jobs: bool = False
) -> ScriptCall[Page]:
    """Read a page of a job's children.

    Args:
        key: ``keys.dependencies(id)``, ``keys.processed(id)`` or ``keys.failed_children(id)``.
        start: First index of the page, moved up by what earlier calls brought.
        end: Last index; -1 for all.
        cursor: From the call before.
        offset: From the call before.
        fetch_jobs: Read the jobs too.

    Source: protocol spec 04 section 3.7.
    """
    wanted = ("1",) if fetch_jobs else ()
    return ScriptCall(
        script="paginate",
        keys=(key,),
        args=(start, end, cursor, offset, _SCANS, *wanted),
        decode=_read_page,
        repeatable=True,
    )


def _read_page(reply: Reply) -> Page:
    if not isinstance(reply, (list, tuple)) or len(reply) < 4:
        raise replies.unexpected(reply, "a page")
    cursor, offset, rows, total, *rest = reply
    items: dict[str, str | None] = {}
    for row in replies.items(rows):
        name, value = replies.rows(row, 2) if isinstance(row, (list, tuple)) else (row, None)
        items[replies.text(name)] = replies.optional_text(value)
    hashes = replies.items(rest[0]) if rest else []
    jobs = {key: _child(key, fields) for key, fields in zip(items, hashes, strict=False) if fields}
    return Page(
        cursor=replies.text(cursor), offset=replies.number(offset), items=items, total=replies.number(total), jobs=jobs
    )


def _child(key: str, fields: Reply) -> Job:
    keys, job_id = Keys.of_job(key)
    return Job.from_hash(keys, job_id, fields)
