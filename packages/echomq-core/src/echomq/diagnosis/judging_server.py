"""What a server's facts mean for its queues. Pure.

Source: issue "Operations", ``doctor``.
"""

from collections.abc import Iterator

from echomq import codec

from .facts import ServerFacts
from .findings import Finding, Severity

__all__ = ["OLDEST", "judge_server", "version_of"]

OLDEST = (6, 2, 0)
"""The oldest server whose commands suffice."""

_FULL = 0.9
_FILLING = 0.75


def judge_server(facts: ServerFacts) -> list[Finding]:
    """Return what is to be said about a server."""
    judges = (_about, _version, _rights, _memory, _persistence, _replication, _clients)
    return [finding for judge in judges for finding in judge(facts)]


def _about(facts: ServerFacts) -> Iterator[Finding]:
    info = facts.info
    if not info:
        yield Finding(
            code="server-untold",
            severity=Severity.WARNING,
            summary="The server does not tell about itself.",
            evidence=("INFO was refused",),
            consequence="Version, memory, persistence and replication could not be looked at.",
            advice="Allow this user INFO (ACL: +info), and run this again.",
        )
        return
    yield Finding(
        code="server",
        severity=Severity.INFO,
        summary=f"The server is {version_of(facts)}.",
        evidence=(
            f"role {info.get('role', '?')}, {info.get('redis_mode', info.get('server_mode', '?'))}",
            f"up {_int(info.get('uptime_in_seconds')) // 3600} h, {info.get('used_memory_human', '?')} used",
        ),
    )
    if _int(info.get("loading")):
        yield Finding(
            code="loading",
            severity=Severity.ERROR,
            summary="The server is loading its data.",
            consequence="Nothing is answered until it is done; workers and producers wait.",
            advice="Wait; what was found below may be incomplete.",
        )


def version_of(facts: ServerFacts) -> str:
    """Return name and version of a server: ``"Valkey 9.1.2"``."""
    name = (facts.info.get("server_name") or "redis").strip().capitalize()
    return f"{name} {'.'.join(map(str, _number(facts)))}"


def _number(facts: ServerFacts) -> tuple[int, ...]:
    name = facts.info.get("server_name", "redis").strip()
    text = facts.info.get(f"{name}_version") or facts.info.get("redis_version", "")
    return tuple(codec.lenient_int(part) for part in text.strip().split(".")[:3])


def _version(facts: ServerFacts) -> Iterator[Finding]:
    number = _number(facts) if facts.info else OLDEST
    if number < OLDEST:
        yield Finding(
            code="server-too-old",
            severity=Severity.ERROR,
            summary="The server is too old.",
            evidence=(f"version {'.'.join(map(str, number))}, needed {'.'.join(map(str, OLDEST))}",),
            consequence="Some scripts use commands that it does not know, and fail half way.",
            advice="Update to Valkey, or to Redis 6.2 or later.",
        )


def _rights(facts: ServerFacts) -> Iterator[Finding]:
    denied = {name for name, told in facts.refused.items() if "unknown command" not in told.lower()}
    unknown = sorted(facts.refused.keys() - denied)
    # Redis 6.2 has no rights within CLIENT, so +@connection does not bring this one there.
    naming = " +client|setname" if "CLIENT SETNAME" in denied else ""
    if denied:
        yield Finding(
            code="rights-missing",
            severity=Severity.ERROR,
            summary="This user lacks rights that EchoMQ needs.",
            evidence=(f"refused: {', '.join(sorted(denied))}", next(iter(facts.refused.values()))),
            consequence="Scripts fail at the first of these commands, jobs then stay where they are.",
            advice="Give the user these rights: ~PREFIX:* +@read +@write +@scripting +@connection +@transaction "
            f"+@blocking +time -@dangerous +info{naming}",
        )
    if unknown:
        yield Finding(
            code="commands-missing",
            severity=Severity.ERROR,
            summary="The server does not know commands that EchoMQ needs.",
            evidence=(f"unknown: {', '.join(unknown)}",),
            consequence="Scripts fail at the first of these commands.",
            advice="Use a server that is compatible with Redis 6.2 or later, and undo renamed commands.",
        )


def _memory(facts: ServerFacts) -> Iterator[Finding]:
    info = facts.info
    policy, limit, used = info.get("maxmemory_policy"), _int(info.get("maxmemory")), _int(info.get("used_memory"))
    if policy is not None and policy.strip() != "noeviction":
        yield Finding(
            code="eviction",
            severity=Severity.ERROR if limit else Severity.WARNING,
            summary="The server may throw away jobs and locks when its memory is full.",
            evidence=(f"maxmemory-policy {policy.strip()}, maxmemory {limit or 'not set'}",),
            consequence="Jobs vanish without a trace, or run twice because their locks vanished.",
            advice="Set maxmemory-policy noeviction; a cache belongs on a server of its own.",
        )
    if limit and used > limit * _FILLING:
        yield Finding(
            code="memory",
            severity=Severity.ERROR if used > limit * _FULL else Severity.WARNING,
            summary=f"The memory of the server is {100 * used // limit} % full.",
            evidence=(f"{used:,} of {limit:,} bytes",),
            consequence="At 100 % no job can be added (OOM), and running ones may not be able to store results.",
            advice="Keep fewer finished jobs (remove_on_complete, remove_on_fail, clean), or raise maxmemory.",
        )


def _persistence(facts: ServerFacts) -> Iterator[Finding]:
    info = facts.info
    if not info:
        return
    has_log, policy = _int(info.get("aof_enabled")), facts.settings.get("appendfsync")
    if not has_log:
        saves = facts.settings.get("save")
        yield Finding(
            code="no-append-log",
            severity=Severity.WARNING,
            summary="Acknowledged jobs are lost when the server ends unexpectedly.",
            evidence=("aof_enabled 0", f"save {saves!r}" if saves is not None else "save is not told"),
            consequence="All jobs since the last snapshot" + (" (there are none: all jobs)." if saves == "" else "."),
            advice="Set appendonly yes and appendfsync everysec (loses up to a second) or always (loses nothing).",
        )
    elif policy == "no":
        yield Finding(
            code="append-log-unsynced",
            severity=Severity.WARNING,
            summary="The system decides when jobs reach the disk.",
            evidence=("appendfsync no",),
            consequence="About 30 seconds of jobs are lost when the machine fails.",
            advice="Set appendfsync everysec, or always.",
        )
    elif policy == "everysec":
        yield Finding(
            code="append-log-second",
            severity=Severity.INFO,
            summary="Up to a second of acknowledged jobs is lost when the machine fails.",
            evidence=("appendfsync everysec",),
            advice="Usual, and fast. Where no job may be lost: appendfsync always.",
        )
    failed = [name for name in ("aof_last_write_status", "rdb_last_bgsave_status") if _is_bad(info.get(name))]
    if failed:
        yield Finding(
            code="disk",
            severity=Severity.ERROR,
            summary="The server could not write its data to disk.",
            evidence=tuple(f"{name} {info[name].strip()}" for name in failed),
            consequence="New jobs are refused (MISCONF), or lost at the next restart.",
            advice="Look at the server's log and at the free space of its disk.",
        )


def _is_bad(status: str | None) -> bool:
    return status is not None and status.strip() != "ok"


def _replication(facts: ServerFacts) -> Iterator[Finding]:
    info = facts.info
    if info.get("role", "").strip() == "slave":
        yield Finding(
            code="replica",
            severity=Severity.ERROR,
            summary="This server is a replica.",
            evidence=(f"its master is {info.get('master_host', '?')}:{info.get('master_port', '?')}",),
            consequence="It refuses every change (READONLY): no job can be added or taken here.",
            advice="Connect to the master, or through Sentinel, which always knows it.",
        )
    replicas = _int(info.get("connected_slaves"))
    if replicas and facts.settings.get("min-replicas-to-write") == "0":
        yield Finding(
            code="replication-asynchronous",
            severity=Severity.INFO,
            summary="Jobs acknowledged in the last moment before a failover can be lost.",
            evidence=(f"{replicas} replicas, min-replicas-to-write 0",),
            advice="Where no job may be lost: min-replicas-to-write 1, and WAIT in the producer.",
        )


def _clients(facts: ServerFacts) -> Iterator[Finding]:
    connected = _int(facts.info.get("connected_clients"))
    limit = _int(facts.settings.get("maxclients") or facts.info.get("maxclients"))
    if limit and connected > limit * _FULL:
        yield Finding(
            code="clients",
            severity=Severity.ERROR,
            summary="The server has hardly a connection left.",
            evidence=(f"{connected} of {limit}",),
            consequence="New workers and producers are turned away.",
            advice="Raise maxclients, or find who holds them: CLIENT LIST.",
        )


def _int(text: str | None) -> int:
    return codec.lenient_int(text) if text is not None else 0
