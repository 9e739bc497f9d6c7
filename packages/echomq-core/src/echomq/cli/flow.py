"""``echomq flow``."""

import json
from typing import Annotated, Any

import typer
from rich.text import Text

from echomq import sync
from echomq.errors import JobNotFound
from echomq.flow_view import FlowView
from echomq.keys import Keys

from .connecting import connected
from .console import open_console
from .opening import must_exist
from .parameters import PREFIX, Prefix, Url

__all__ = ["flow"]


def flow(
    queue: Annotated[str, typer.Argument(help="Queue of the job at the top.")],
    job_id: Annotated[str, typer.Argument(metavar="ID", help="That job.")],
    depth: Annotated[int, typer.Option(min=1, help="How many levels.")] = 10,
    children: Annotated[int, typer.Option(min=1, help="Most children of each kind of one job.")] = 20,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object, for programs.")] = False,
    url: Url = None,
    prefix: Prefix = PREFIX,
) -> None:
    """Show a flow as a tree, where each job is, and what holds it up."""
    with connected(url) as connection, sync.FlowProducer(connection, prefix=prefix) as flows:
        found = flows.get_flow(queue, job_id, depth=depth, max_children=children)
        if found is None:
            must_exist(connection, [Keys(queue, prefix)])
            raise JobNotFound("getFlow", job_id)
    if as_json:
        print(json.dumps(_as_json(found), indent=2))
    else:
        open_console().print(Text(str(found)), soft_wrap=True)


def _as_json(view: FlowView) -> dict[str, Any]:
    keys, job_id = Keys.of_job(view.key)
    return {
        "queue": keys.queue,
        "id": job_id,
        "name": view.job.name if view.job else None,
        "state": view.state.value,
        "reason": view.job.failed_reason if view.job else None,
        "relation": view.relation,
        "value": view.value,
        "stuck": view.is_stuck,
        "children_total": view.counts.total,
        "children_hidden": view.hidden_count,
        "children": [_as_json(child) for child in view.children],
    }
