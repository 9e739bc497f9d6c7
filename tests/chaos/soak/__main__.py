"""A long storm: ``nox -s soak``, or ``python -m chaos.soak`` with ``tests`` on the path; ``--help`` lists the options.

Jobs of all kinds go through queues, some of them rate limited, while workers
of both drivers and both shells are killed and frozen, links are cut, and
servers crash, hang, refuse and change places. At the end every job is accounted
for; the exit code is 1 if one was lost, finished twice, or left anything behind.
"""

import argparse
import asyncio
import contextlib
import logging
import random
import signal
import sys

from support.servers import started

from .adding import Producer
from .crew import Crew
from .places import TOPOLOGIES, opened
from .storm import Soak


def main() -> None:
    """Run a storm and tell what came of it."""
    parser = argparse.ArgumentParser(description="Work through a storm of faults.")
    parser.add_argument("--minutes", type=float, default=20)
    parser.add_argument("--jobs", type=int, default=100_000)
    parser.add_argument("--topology", choices=TOPOLOGIES, default="single")
    parser.add_argument("--server", choices=("redis", "valkey"), default="valkey")
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(10**6))
    parser.add_argument("--only", action="append", default=[], metavar="FAULT", help="as the report names it; repeat")
    parser.add_argument("--trace", choices=("INFO", "DEBUG"), help="tell of each fault, or of progress too")
    given = parser.parse_args()
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # who is told to end, ends the servers, too
    if given.trace:
        logging.basicConfig(format="%(asctime)s %(name)s: %(message)s")
        logging.getLogger("soak").setLevel(given.trace)
    print(
        f"{given.jobs:,} jobs in {given.minutes:g} minutes on {given.topology}, {given.server}, seed {given.seed}",
        flush=True,
    )
    dice, seconds = random.Random(given.seed), given.minutes * 60
    with (
        opened(given.topology, given.server) as place,
        started(given.server) as noting,
        contextlib.closing(noting.client()) as notes,
    ):
        soak = Soak(
            place=place,
            dice=dice,
            producer=Producer(place=place, dice=dice, jobs=given.jobs, seconds=seconds),
            crew=Crew(place=place, dice=dice, notes=noting.url),
            notes=notes,
            seconds=seconds,
            only=given.only,
        )
        account = asyncio.run(soak.run())
    for name, value in account.lines():
        print(f"{name:<28}{value}")
    print(f"{'longest stall':<28}{soak.longest_stall_s:.1f} s, outages included: {', '.join(soak.stalled_by)}")
    print(f"{'faults':<28}{', '.join(f'{count} x {name}' for name, count in soak.struck.most_common())}")
    if given.topology != "single":
        print("Masters died only once their replica had all that they acknowledged: replication is asynchronous.")
    sys.exit(0 if account.is_clean else 1)


if __name__ == "__main__":
    main()
