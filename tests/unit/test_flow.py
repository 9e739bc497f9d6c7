"""Flows: a tree becomes one transaction."""

from itertools import count
from typing import Any

import pytest

from echomq.call import ScriptCall
from echomq.errors import InvalidOption
from echomq.flow import Flow, FlowNode, build_flow
from support.wire import spoken

T = 1_700_000_000_000


def flow(*roots: FlowNode, **given: Any) -> Flow:
    """The flow of some trees, with ids u0, u1, ..."""
    ids = count()
    return build_flow(*roots, now_ms=T, new_id=lambda: f"u{next(ids)}", **given)


def scripts(sent: Flow) -> list[ScriptCall[Any]]:
    """The calls of a flow."""
    return [request for request in sent.batch.requests if isinstance(request, ScriptCall)]


def ids_added(call: ScriptCall[Any]) -> Any:
    """The job that a call of a flow is about."""
    return call.args[1] if call.script.startswith("release") else spoken(call)[2][0][1]


TREE = FlowNode(
    queue="q",
    name="root",
    children=[
        FlowNode(queue="o", name="left", children=[FlowNode(queue="o", name="leaf", prefix="alt")]),
        FlowNode(queue="q", name="right", options={"fail_parent_on_failure": True, "job_id": "mine"}),
    ],
)


def test_order() -> None:
    """Parents are added before their children, then each parent is released, in the order they were met."""
    sent = flow(TREE)

    assert sent.batch.atomic
    assert [(call.script, ids_added(call)) for call in scripts(sent)] == [
        ("addParentJob", "u0"),
        ("addParentJob", "u1"),
        ("addStandardJob", "u2"),
        ("addStandardJob", "mine"),
        ("releaseParentIfNoPendingDependencies", "u0"),
        ("releaseParentIfNoPendingDependencies", "u1"),
    ]


def test_children_name_their_parent() -> None:
    """Each child carries its parent's key, across queues and prefixes, and asks for the later release."""
    heads = [spoken(call)[2][0] for call in scripts(flow(TREE))[:4]]

    assert [head[0] for head in heads] == ["bull:q:", "bull:o:", "alt:o:", "bull:q:"]
    assert [head[4] for head in heads] == [None, "bull:q:u0", "bull:o:u1", "bull:q:u0"]
    assert heads[3][6] == {"id": "u0", "queueKey": "bull:q", "fpof": True}
    assert {head[9] for head in heads} == {1}


def test_root_with_a_parent() -> None:
    """A root may be a child of a job that exists; that one gets a release too."""
    sent = flow(FlowNode(queue="q", name="n", options={"parent": {"id": "p", "queue": "x:y:o"}}))
    assert scripts(sent)[1].keys == ("x:y:o:p", "x:y:o:p:dependencies")


@pytest.mark.parametrize("children", [(), ({"queue": "q", "name": "child"},)])
def test_what_is_no_node_is_refused(children: Any) -> None:
    """A mapping in place of a node is refused with what is expected, as a root and as a child."""
    root: Any = FlowNode(queue="q", name="root", children=children) if children else {"queue": "q", "name": "root"}

    with pytest.raises(InvalidOption, match=r"flow: expected FlowNode\(queue=..., name=...\), not dict"):
        flow(root)
