"""What hurt users of job queues elsewhere, by number, and the tests that show it does not hurt here.

A test names what it shows at the end of its docstring: ``(pain 7)``, ``(pains 48 and 49)``.
"""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import attrs

__all__ = ["PAINS", "SECTIONS", "Pain", "Proof", "proofs"]

TESTS = Path(__file__).resolve().parents[1]

_NAMED = re.compile(r"\(pains? (\d+(?:(?:, | and )\d+)*)\)")


@attrs.frozen
class Pain:
    """One trouble that users of some job queue reported.

    Attributes:
        number: By which tests name it; gaps are reports that say the same.
        source: Where it was reported.
        hurt: What happened there.
        here: What a user relies on here.
        absent: Why no test shows it, if EchoMQ has nothing of the kind.
    """

    number: int
    source: str
    hurt: str
    here: str
    absent: str = ""


@attrs.frozen(order=True)
class Proof:
    """A test that names an entry."""

    path: str
    name: str


def proofs() -> dict[int, list[Proof]]:
    """Find the tests that name each entry."""
    found: dict[int, list[Proof]] = {}
    for path in sorted(TESTS.rglob("test_*.py")):
        for name, text in _tests(path):
            for named in _NAMED.finditer(" ".join(text.split())):
                for number in re.findall(r"\d+", named[1]):
                    proof = Proof(path.relative_to(TESTS.parent).as_posix(), name)
                    found.setdefault(int(number), []).append(proof)
    return {number: sorted(tests) for number, tests in found.items()}


def _tests(path: Path) -> Iterator[tuple[str, str]]:
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_"):
            yield node.name, ast.get_docstring(node) or ""


SECTIONS: dict[str, tuple[Pain, ...]] = {
    "Stalled jobs and locks": (
        Pain(
            1,
            "taskforcesh/bullmq#3056",
            "Failed renewals of locks flood the log until a restart.",
            "A lost lock is told once, cancels its job, and no result is written for it.",
        ),
        Pain(
            2,
            "taskforcesh/bullmq#3078",
            "Jobs of many short steps stall now and then, and nobody can say why.",
            "Locks are renewed beside the event loop; code that blocks it is named, with the time.",
        ),
        Pain(
            6,
            "procrastinate-org/procrastinate#1518",
            "Jobs of a dead worker run for ever, since another came back under its name.",
            "Recovery looks at locks, never at names.",
        ),
    ),
    "Jobs lost or stuck after a crash": (
        Pain(
            7,
            "tobymao/saq#127",
            "What a killed process worked on is given up.",
            "It runs again elsewhere; after a second crash it fails, with the limit as the reason.",
        ),
        Pain(
            9,
            "Bogdanp/dramatiq#431",
            "A delayed message becomes due in two steps, and runs many times.",
            "One step, which only one worker can make.",
        ),
        Pain(
            11,
            "taskforcesh/bullmq#2466",
            "After a restart of the server an idle worker sleeps until somebody adds a job.",
            "Every wait has an end, and begins anew with each connection.",
        ),
    ),
    "Reconnecting": (
        Pain(
            14,
            "taskforcesh/bullmq#2542",
            "A dropped socket inside the library fails the user's job.",
            "Calls are repeated; attempts do not grow, nothing fails.",
        ),
        Pain(
            15,
            "taskforcesh/bullmq#3088",
            "Workers hang after a failover until they are restarted.",
            "They take jobs again by themselves, and are listed again.",
        ),
        Pain(
            16,
            "celery/celery#10302",
            "The process is up and healthy, and consumes nothing.",
            "Health means that the server answered lately; checks turn red and green again.",
        ),
        Pain(
            17,
            "taskiq-python/taskiq-redis#65",
            "A short loss of the link kills long jobs that did not need it.",
            "Jobs outlive an outage shorter than their lock, and their results are stored.",
        ),
        Pain(
            18,
            "Bogdanp/dramatiq#258",
            "A script takes more ids at once than it can, and all stops.",
            "Work on very many jobs goes in parts.",
        ),
    ),
    "Memory, connections, eviction": (
        Pain(
            19,
            "taskforcesh/bullmq#3087",
            "The stream of events grows past its cap.",
            "The cap of the queue holds, and is written where there is none.",
        ),
        Pain(
            20,
            "taskforcesh/bullmq#2243",
            "Far more connections than anybody expects.",
            "A fixed number, whatever the concurrency, and none after the end.",
        ),
        Pain(
            21,
            "celery/celery#4843",
            "Memory grows while the server is away.",
            "Buffers are bounded, and adds end at their deadline.",
        ),
        Pain(
            22,
            "taskforcesh/bullmq#2737",
            "The server evicts locks and jobs; or the check for that fails and cannot be switched off.",
            "One warning with policy and risk, and silence where nobody may ask.",
        ),
    ),
    "Cluster and Sentinel": (
        Pain(
            23,
            "taskforcesh/bullmq#2589",
            "A flow over two slots dies in its middle.",
            "Slots are compared before anything is sent; the error names both queues.",
        ),
        Pain(
            24,
            "taskforcesh/bullmq#2849",
            "Sentinel cannot be set by options.",
            "By URL or options, in both drivers.",
        ),
        Pain(
            25,
            "rq/rq#1942",
            "The worker dies at its start on a cluster.",
            "Everything works under a hash tag, and without one the error says what to do.",
        ),
    ),
    "Platforms": (
        Pain(
            26,
            "rq/rq#2273",
            "Even the simple worker needs SIGALRM, so nothing runs on Windows.",
            "Time limits need no signals.",
        ),
        Pain(
            27,
            "rq/rq#2235",
            "A fork after threads began crashes the child.",
            "Child processes are started anew; the crash of one is one failed attempt.",
        ),
        Pain(
            28,
            "rq/rq#2326",
            "A worker inside a coroutine breaks with a newer Python.",
            "It runs inside a running loop as well as without one.",
        ),
    ),
    "Stopping": (
        Pain(
            29,
            "taskforcesh/bullmq#2199",
            "Closing cuts the connection before results are stored.",
            "Stop taking, finish, report, give back, disconnect: in this order.",
        ),
        Pain(
            30,
            "taskforcesh/bullmq#4597",
            "Closing an idle worker takes as long as it waits for jobs.",
            "It takes milliseconds.",
        ),
        Pain(
            31,
            "coleifer/huey#514",
            "The platform's SIGTERM kills running jobs.",
            "It lets them end, as Ctrl-C does; a second one does not.",
        ),
        Pain(
            32,
            "celery/celery#3802",
            "A job that ended during the stop runs again.",
            "What ends before the deadline is recorded.",
        ),
    ),
    "Sync code, Django, event loops": (
        Pain(
            33,
            "celery/celery#6552",
            "`async def` tasks succeed with a coroutine as their result.",
            "Both kinds of function are run in their right place.",
        ),
        Pain(
            34,
            "django/new-features#161",
            "A worker reads a row that is not committed yet.",
            "Adding waits for the commit, in Django by itself, and with SQLAlchemy.",
        ),
        Pain(
            35,
            "rq/django-rq#763",
            "There is no ready backend for Django's tasks.",
            "A backend with all that Django asks for.",
        ),
    ),
    "Typing": (
        Pain(
            37,
            "sbdchd/celery-types#223",
            "The task decorator loses the types of arguments.",
            "It keeps them: wrong, missing and misused ones are type errors.",
        ),
        Pain(
            38,
            "taskforcesh/bullmq#3695",
            "A documented option is missing from the types.",
            "Types and code take the same options; unknown ones raise, with the nearest name.",
        ),
    ),
    "Looking at it": (
        Pain(
            39,
            "mher/flower#1128",
            "Workers that are gone stay online in the metrics.",
            "Metrics are read from the server when asked for, and their labels are bounded.",
        ),
        Pain(
            40,
            "taskforcesh/bullmq#2048",
            "Traces need wrappers around everything.",
            "Installed, `echomq-opentelemetry` traces all of it, from producer to worker across runtimes.",
        ),
        Pain(
            41,
            "python-arq/arq#410",
            "Nobody can find out why a job failed.",
            "Reason and traceback with causes are stored and shown; hooks get the exception.",
        ),
        Pain(
            42,
            "felixmosh/bull-board#932",
            "Nobody can find a job by its name or data.",
            "A search with a budget, which says what ended it and never holds up the server.",
        ),
    ),
    "Events and results": (
        Pain(
            44,
            "taskforcesh/bullmq#2341",
            "The wait for a job that somebody removes never ends.",
            "Every wait ends, in time and with the right answer.",
        ),
    ),
    "Flows": (
        Pain(
            48,
            "taskforcesh/bullmq#1752",
            "Parents wait for ever for a child that failed.",
            "Outcomes are those of Node; where that is to wait, view and doctor say why, and what helps.",
        ),
        Pain(
            49,
            "taskforcesh/bullmq#3638",
            "A child that should fail its parent does nothing, or crashes the worker.",
            "The parent fails once, with the reason, between any two runtimes.",
        ),
    ),
    "Priorities and limits": (
        Pain(
            50,
            "taskforcesh/bullmq#1915",
            "A rate limit turns the order of equal priorities round.",
            "First come, first served within one priority.",
        ),
        Pain(
            51,
            "celery/celery#8967",
            "A priority out of range is clamped, and turned into the highest.",
            "It is refused, with the range.",
        ),
        Pain(
            53,
            "celery/celery#5732",
            "A limit counts for each worker alone, and limits for each customer cost money.",
            "A limit counts over all workers of all runtimes.",
        ),
    ),
    "Encoding": (
        Pain(
            56,
            "taskforcesh/bullmq#2196",
            "Results that are not JSON cannot be read elsewhere.",
            "Strict JSON both ways; what has no such form fails at once, with job and path.",
        ),
    ),
    "Security": (
        Pain(
            57,
            "rq/rq#2389",
            "Who can write to the store can run code in workers.",
            "Nothing is unpickled, evaluated or imported by a name that was read.",
        ),
        Pain(
            58,
            "felixmosh/bull-board#157",
            "Dashboards stand open on the internet.",
            "EchoMQ opens no port unasked and shows no job there; its page sets up a dashboard with a login.",
        ),
    ),
    "Time limits and tests": (
        Pain(
            59,
            "taskforcesh/bullmq#136",
            "There is no time limit, or the job goes on as a zombie.",
            "The work is stopped or cut off from its lock, and only then fails.",
        ),
        Pain(
            60,
            "taskforcesh/bullmq#3363",
            "Nothing can be tested without a server.",
            "A server comes with the package, and starts by itself.",
        ),
    ),
}
"""All entries, by kind."""

PAINS: dict[int, Pain] = {pain.number: pain for pains in SECTIONS.values() for pain in pains}
