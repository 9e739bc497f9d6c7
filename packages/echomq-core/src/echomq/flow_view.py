"""What a flow looks like at a moment: each job, where it is, and what holds it up.

Source: protocol spec 03 section 4; 05 section 10, getFlow.
"""

from collections.abc import Iterator
from typing import Any

import attrs

from .calls.family import Children, DependencyCounts
from .job import Job
from .keys import Keys
from .states import JobState

__all__ = ["FlowView"]


@attrs.frozen(kw_only=True)
class FlowView:
    """One job of a flow with the children that were read; as text, the whole tree.

    Attributes:
        key: Key of its hash.
        job: The job; None if it was removed, as retention does with finished ones.
        state: Where it is.
        counts: Its children in all.
        relation: What its parent thinks of it; None for the root.
        value: What its parent keeps of it: its result if processed, the reason if its failure is ignored.
        children: Those that were read.
    """

    key: str
    job: Job | None
    state: JobState
    counts: DependencyCounts
    relation: Children | None = None
    value: Any = attrs.field(default=None, repr=False)
    children: tuple["FlowView", ...] = ()

    @property
    def hidden_count(self) -> int:
        """How many children there are that were not read."""
        return self.counts.total - len(self.children)

    @property
    def blockers(self) -> tuple["FlowView", ...]:
        """Children that failed without a policy, so that this job waits for ever unless somebody acts."""
        return tuple(child for child in self.children if child.relation == "unprocessed" and child.has_failed)

    @property
    def has_failed(self) -> bool:
        """Whether the job failed."""
        return self.state is JobState.FAILED

    @property
    def is_stuck(self) -> bool:
        """Whether the job waits for children though none is left that could release it."""
        return self.state is JobState.WAITING_CHILDREN and self.counts.unprocessed == len(self.blockers)

    def __str__(self) -> str:
        return "\n".join(self._lines("", ""))

    def _lines(self, first: str, others: str) -> Iterator[str]:
        yield f"{first}{self._title()}"
        for advice in self._advice():
            yield f"{others}{'│' if self.children or self.hidden_count else ' '}  ! {advice}"
        last = len(self.children) + (self.hidden_count > 0) - 1
        for index, child in enumerate(self.children):
            branch, below = ("└─ ", "   ") if index == last else ("├─ ", "│  ")
            yield from child._lines(others + branch, others + below)
        if self.hidden_count > 0:
            yield f"{others}└─ … {self.hidden_count} more"

    def _title(self) -> str:
        keys, job_id = Keys.of_job(self.key)
        name = "(removed)" if self.job is None else self.job.name
        title = f"{name} [{keys.queue}:{job_id}] {self._standing()}"
        done = self.counts.total - self.counts.unprocessed
        return f"{title}, {done} of {self.counts.total} children done" if self.counts.total else title

    def _standing(self) -> str:
        if self.relation == "ignored":
            return f"failed, ignored: {self.value}"
        if self.job is None:
            return {"processed": "completed", "failed": "failed"}.get(str(self.relation), self.state.value)
        return f"failed: {self.job.failed_reason}" if self.has_failed else self.state.value

    def _advice(self) -> Iterator[str]:
        if self.state is not JobState.WAITING_CHILDREN:
            return
        for child in self.blockers:
            child_id = Keys.of_job(child.key)[1]
            yield f"waits for {child_id}, which failed: retry it, remove it, or remove_child_dependency({child_id!r})"
        if self.is_stuck and not self.blockers:
            yield "waits for no child: remove it, or let it run by FlowProducer.release"
