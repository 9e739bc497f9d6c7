"""User code with tasks that must not type-check (pain 37); never run.

Each mistake is marked with the kind of error it must cause; see ``bad.py``.
"""

from echomq.tasks import Enqueued, Tasks

tasks = Tasks()


@tasks.task(queue="emails", retries=3)
async def send(to: str, copies: int = 1) -> int:
    """Send a mail."""
    return len(to) * copies


@tasks.task(queue="emails")
def plain(to: str) -> str:
    """Do it in a thread."""
    return to


async def produce() -> None:
    """Make mistakes in calls."""
    await send.delay(7)  # type: ignore[arg-type]
    await send.delay()  # type: ignore[call-arg]
    await send.delay("ada", 1, 2)  # type: ignore[call-arg]
    await send.delay("ada", copy=2)  # type: ignore[call-arg]
    await send.delay("ada", copies="2")  # type: ignore[arg-type]
    await send.enqueue(to=None)  # type: ignore[arg-type]
    await send.options(delay=5).delay(7)  # type: ignore[arg-type]
    await send.options(dealy=5).delay("ada")  # type: ignore[call-arg]
    await send.options(delay="5").delay("ada")  # type: ignore[arg-type]
    await send(7)  # type: ignore[arg-type]
    send.new_job(7)  # type: ignore[arg-type]
    plain.delay_sync(7)  # type: ignore[arg-type]
    plain.options(lifo=True).delay_sync()  # type: ignore[call-arg]
    send.delay("ada")  # type: ignore[unused-coroutine]


async def results() -> None:
    """Take results for something else."""
    sent: Enqueued[str] = await send.delay("ada")  # type: ignore[assignment]
    number: str = await send.enqueued("7").result()  # type: ignore[assignment]
    text: int = plain.enqueued("7").result_sync()  # type: ignore[assignment]
    here: int = plain("ada")  # type: ignore[assignment]
    print(sent, number, text, here)


def define() -> None:
    """Make mistakes in definitions."""
    tasks.task("emails")  # type: ignore[call-arg]
    tasks.task(queue="emails", retry=3)  # type: ignore[call-arg]
    tasks.task(queue="emails", retries="3")  # type: ignore[arg-type]
    tasks.worker("emails", concurency=5)  # type: ignore[call-arg]
