"""Node calls tasks: it adds plain JSON by a task's name and reads the result."""

from echomq.tasks import Tasks
from support.desk import happens
from support.peer import PeerObject
from support.servers import Server


async def test_node_calls_a_task(events: PeerObject, server: Server, prefix: str) -> None:
    """Node names a task and its arguments and gets its result; what does not fit fails with the field's path."""
    queue = await events.peer.open("Queue", "mail")
    async with Tasks(server.url, prefix=prefix) as tasks:

        @tasks.task(queue="mail")
        async def welcome(to: list[str], copies: int = 1) -> dict[str, int]:
            return dict.fromkeys(to, copies)

        good = await queue.call("add", "welcome", {"to": ["ada"]})
        bad = await queue.call("add", "welcome", {"to": ["ada", 7]}, {"attempts": 3})
        await happens(tasks.worker("mail", drain_delay=100).run("drained"))

    assert (await queue.call("getJob", good["id"]))["returnvalue"] == {"ada": 1}
    failed = await queue.call("getJob", bad["id"])
    assert failed["failedReason"].endswith("arguments of task 'welcome': Expected `str`, got `int` - at `to[1]`")
    assert failed["attemptsMade"] == 1
