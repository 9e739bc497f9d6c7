"""What the commands of a script cost alone: no script with the same effects can cost less.

    python benchmarks/floor.py [--server valkey] [--rounds 21]

The first table has the scripts with a goal. *Bare* unpacks what the call carries, makes
the JSON that is stored, and sends the commands that the effects of the contract need,
as few as we know. It checks nothing and knows no other case than the one it is played
on, so it is no script to use. It is measured like the others (``scripts.py``), beside
ours and the original's, on the same calls.
The second table has what one command costs within a script: a script that sends it
40 times, less one that sends none. ``lua/README.md`` shows both.
"""

from __future__ import annotations

import argparse
import contextlib
import statistics

# First, for it finds the tests' own fixtures.
from scripts import TRIES, spent_us  # isort: skip
from script_cases import CASES, Case

from differential.original import original_scripts
from echomq.scripts import get_script
from support.servers import Servers
from vectors.keyspace import RawClient

TIMES = 40

STORE = """
local call, packed, data, opts = redis.call, unpack(ARGV)
local _, prefix, _, name, timestamp = cmsgpack.unpack_limit(packed, 9, 1)
opts = cmsgpack.unpack(opts)
local number = call('INCR', counter)
local id = string.format('%d', number)
local limit = call('HGET', meta, 'opts.maxLenEvents') or '10000'
call('HSET', prefix .. id, 'name', name, 'data', data, 'opts', cjson.encode(opts), 'timestamp', timestamp,
  'delay', opts.delay or '0', 'priority', opts.priority or '0')
call('XADD', events, '*', 'event', 'added', 'jobId', id, 'name', name)
"""

BARE = {
    ("addStandardJob", ""): f"""
local wait, _, meta, counter, _, _, _, events, marker = unpack(KEYS)
{STORE}
call('LPUSH', wait, id)
call('ZADD', marker, '0', '0')
call('XADD', events, 'MAXLEN', '~', limit, '*', 'event', 'waiting', 'jobId', id)
return id
""",
    ("addDelayedJob", ""): f"""
local marker, meta, counter, delayed, _, events = unpack(KEYS)
{STORE}
local due = timestamp + opts.delay
local first = due * 4096
local used = call('ZREVRANGEBYSCORE', delayed, first + 4095, first, 'WITHSCORES', 'LIMIT', '0', '1')[2]
call('ZADD', delayed, used and used + 1 or first, id)
call('XADD', events, 'MAXLEN', '~', limit, '*', 'event', 'delayed', 'jobId', id, 'delay', due)
call('ZADD', marker, call('ZRANGE', delayed, '0', '0', 'WITHSCORES')[2] / 4096, '1')
return id
""",
    ("addPrioritizedJob", ""): f"""
local marker, meta, counter, prioritized, _, _, _, events, pc = unpack(KEYS)
{STORE}
call('ZADD', prioritized, opts.priority * 4294967296 + call('INCR', pc), id)
call('ZADD', marker, '0', '0')
call('XADD', events, 'MAXLEN', '~', limit, '*', 'event', 'waiting', 'jobId', id)
return id
""",
    ("moveToFinished", "completed, fetches the next"): """
local call = redis.call
local wait, active, _, events, stalled, _, delayed, _, meta, _, finished, job, _, marker = unpack(KEYS)
local id, now, property, value, target, _, prefix, opts = unpack(ARGV)
opts = cmsgpack.unpack(opts)
local lock = job .. ':lock'
call('HMGET', job, 'name', 'atm', 'defa', 'deid', 'parentKey')
call('EXISTS', job .. ':dependencies', job .. ':unsuccessful')
call('GET', lock)
call('LREM', active, '-1', id)
call('DEL', lock)
call('SREM', stalled, id)
call('HSET', job, property, value, 'finishedOn', now, 'atm', '1')
call('ZADD', finished, now, id)
call('HMGET', meta, 'paused', 'concurrency', 'max', 'duration', 'opts.maxLenEvents')
call('XADD', events, 'MAXLEN', '~', '10000', '*', 'event', target, 'jobId', id, property, value, 'prev', 'active')
call('ZRANGE', delayed, '0', '0', 'WITHSCORES')
local nextId = call('RPOPLPUSH', wait, active)
local nextJob = prefix .. nextId
call('HINCRBY', nextJob, 'ats', '1')
call('HSET', nextJob, 'processedOn', now, 'pb', opts.name)
call('SET', nextJob .. ':lock', opts.token, 'PX', opts.lockDuration)
call('XADD', events, '*', 'event', 'active', 'jobId', nextId, 'prev', 'waiting')
call('ZADD', marker, '0', '0')
return { call('HGETALL', nextJob), nextId, 0, 0 }
""",
}

COMMANDS = {
    "INCR": "call('INCR', 'id')",
    "HGET": "call('HGET', 'meta', 'opts.maxLenEvents')",
    "HMGET of 2": "call('HMGET', 'meta', 'paused', 'concurrency')",
    "HMGET of 5": "call('HMGET', 'meta', 'paused', 'concurrency', 'max', 'duration', 'opts.maxLenEvents')",
    "HSET of a job": "call('HSET', 'job', 'name', 'mail', 'data', ARGV[2], 'opts', '{\"attempts\":3}',"
    " 'timestamp', '1700000000000', 'delay', '0', 'priority', '0')",
    "HGETALL of a job": "call('HGETALL', 'job')",
    "LPUSH": "call('LPUSH', 'wait', '1')",
    "ZADD of the marker": "call('ZADD', 'marker', '0', '0')",
    "XADD": "call('XADD', 'events', '*', 'event', 'waiting', 'jobId', '1')",
    "XADD, trimming": "call('XADD', 'events', 'MAXLEN', '~', '10000', '*', 'event', 'waiting', 'jobId', '1')",
    "EXISTS": "call('EXISTS', 'absent')",
    "GET": "call('GET', 'id')",
    "SET with PX": "call('SET', 'lock', 'tok', 'PX', '30000')",
    "EXISTS, of a number": "call('EXISTS', 1700000000000)",
    "unpack of an array of nine": "local a = cmsgpack.unpack(ARGV[1])",
    "the same, without its table": "local a, b, c, d, e, f, g, h, i, j = cmsgpack.unpack_limit(ARGV[1], 9, 1)",
    "unpack of the options": "local a = cmsgpack.unpack(ARGV[3])",
    "a local function": "local function a() return _ end",
}


def case_of(script: str, title: str) -> Case:
    """The case of that name."""
    return next(case for case in CASES if (case.script, case.title) == (script, title))


def spent(client: RawClient, texts: dict[str, str], case: Case, rounds: int) -> dict[str, float]:
    """Microseconds of each text: of each round the least, of all rounds the median."""
    all_rounds: dict[str, list[float]] = {name: [] for name in texts}
    for _ in range(rounds):
        tries = [
            {name: spent_us(client, {case.script: text}, case) for name, text in texts.items()} for _ in range(TRIES)
        ]
        for name, found in all_rounds.items():
            found.append(min(one[name] for one in tries))
    return {name: statistics.median(found) for name, found in all_rounds.items()}


def show_scripts(client: RawClient, rounds: int) -> None:
    """Table of the scripts with a goal."""
    print("| script | bare, us | ours, us | original, us | bare/original | ours/original |")
    print("|---|---:|---:|---:|---:|---:|")
    for (script, title), bare in BARE.items():
        texts = {"bare": bare, "ours": get_script(script).text, "original": original_scripts()[script]}
        found = spent(client, texts, case_of(script, title), rounds)
        least, ours, original = found["bare"], found["ours"], found["original"]
        name = f"{script}, {title}" if title else script
        ratios = f"{least / original:.2f} | {ours / original:.2f}"
        print(f"| {name} | {least:.1f} | {ours:.1f} | {original:.1f} | {ratios} |", flush=True)


def show_commands(client: RawClient, rounds: int) -> None:
    """Table of the commands."""
    head = "local call = redis.call\ncall('HSET', 'meta', 'opts.maxLenEvents', '10000')\ncall('SET', 'id', '100000')\n"
    head += f"call('DEL', 'job', 'events') {COMMANDS['HSET of a job']}\n"
    repeated = "for _ = 1, {times} do {command} end"
    texts = {name: head + repeated.format(times=TIMES, command=command) for name, command in COMMANDS.items()}
    texts[""] = head + repeated.format(times=TIMES, command="")
    found = spent(client, texts, case_of("addStandardJob", ""), rounds)
    print("\n| within a script | us |\n|---|---:|")
    for name in COMMANDS:
        print(f"| {name} | {(found[name] - found['']) / TIMES:.2f} |")


def main() -> None:
    """Measure and print both tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--server", default="redis", help="redis, valkey, or another name of the tests' servers")
    parser.add_argument("--rounds", type=int, default=21)
    options = parser.parse_args()
    with (
        contextlib.closing(Servers()) as servers,
        contextlib.closing(RawClient(servers.start(options.server).url)) as client,
    ):
        show_scripts(client, options.rounds)
        show_commands(client, max(options.rounds // 4, 1))


if __name__ == "__main__":
    main()
