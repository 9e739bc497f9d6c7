"""What a cluster's facts mean: those of each master, and what only shows when they are seen together. Pure.

Source: issue "Operations", ``doctor``.
"""

from collections.abc import Collection, Iterator

import attrs

from .facts import ServerFacts
from .findings import Finding, Severity
from .judging_server import judge_server, version_of
from .nodes import Layout

__all__ = ["judge_cluster"]


def judge_cluster(layout: Layout, told: Collection[ServerFacts]) -> list[Finding]:
    """Return what is to be said about a cluster; what concerns one master names it.

    Args:
        layout: Who serves what.
        told: What each master tells of itself.
    """
    return [*_slots(layout), *_replicas(layout), *_versions(told), *(one for facts in told for one in _master(facts))]


def _master(facts: ServerFacts) -> Iterator[Finding]:
    if facts.silence is None:
        yield from (attrs.evolve(finding, node=facts.node) for finding in judge_server(facts))
        return
    yield Finding(
        code="master-silent",
        severity=Severity.ERROR,
        node=facts.node,
        summary="A master of the cluster does not answer.",
        evidence=(facts.silence,),
        consequence="The queues on its slots stand still until it answers, or a replica has taken over.",
        advice="Look at that server. Behind address translation, let the nodes announce addresses that clients reach.",
    )


def _slots(layout: Layout) -> Iterator[Finding]:
    if layout.unserved_count:
        yield Finding(
            code="slots-unserved",
            severity=Severity.ERROR,
            summary="Nobody serves some slots of the cluster.",
            evidence=(f"{layout.unserved_count:,} of 16,384 slots",),
            consequence="The cluster refuses everything (CLUSTERDOWN), or at least the queues on these slots.",
            advice="Look for failed masters: CLUSTER NODES; then redis-cli --cluster fix.",
        )


def _replicas(layout: Layout) -> Iterator[Finding]:
    for master in layout.masters:
        if not master.replica_count:
            yield Finding(
                code="master-without-replica",
                severity=Severity.WARNING,
                node=master.where,
                summary="A master of the cluster has no replica.",
                evidence=(f"{sum(last - first + 1 for first, last in master.slots):,} slots",),
                consequence="If it fails nobody takes over, and the queues on its slots stand still.",
                advice="Add a replica: CLUSTER REPLICATE.",
            )


def _versions(told: Collection[ServerFacts]) -> Iterator[Finding]:
    found = {facts.node: version_of(facts) for facts in told if facts.info}
    if len(set(found.values())) > 1:
        yield Finding(
            code="versions-differ",
            severity=Severity.WARNING,
            summary="The masters of the cluster are of different versions.",
            evidence=tuple(f"{node}: {version}" for node, version in found.items()),
            consequence="A queue may behave differently after a failover or when its slot moves.",
            advice="Usual while an update goes on; bring it to its end.",
        )
