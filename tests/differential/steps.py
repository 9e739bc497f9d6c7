"""What a differential sequence is made of: calls and plain commands, values that print as they are written."""

from typing import Any

import attrs
import msgspec

__all__ = ["KEYS", "Call", "Command", "Pack", "Step", "call", "printed"]

# Order of KEYS, script by script: a name is a key of the queue, "@" the job's own,
# "{state}" what the call names so, "." the queue's prefix.
KEYS = {
    "addStandardJob": "wait paused meta id completed delayed active events marker",
    "addDelayedJob": "marker meta id delayed completed events",
    "addPrioritizedJob": "marker meta id prioritized delayed completed active events pc",
    "addParentJob": "meta id delayed waiting-children completed events",
    "moveToActive": "wait active prioritized events stalled limiter delayed paused meta pc marker",
    "moveToFinished": (
        "wait active prioritized events stalled limiter delayed paused meta pc {state} @ metrics:{state} marker"
    ),
    "retryJob": "active wait paused @ meta events delayed prioritized pc marker stalled",
    "moveToDelayed": "marker active prioritized delayed @ events meta stalled wait limiter pc",
    "moveToWaitingChildren": "active waiting-children @ @:dependencies @:unsuccessful stalled events",
    "moveJobFromActiveToWait": "active wait stalled paused meta limiter prioritized marker events",
    "moveStalledJobsToWait": "stalled wait active stalled-check meta paused marker events repeat",
    "extendLock": "@:lock stalled",
    "extendLocks": "stalled",
    "releaseLock": "@:lock",
    "updateProgress": "@ events meta",
    "updateData": "@",
    "addLog": "@ @:logs",
    "saveStacktrace": "@",
    "isFinished": "completed failed @",
    "isMaxed": "meta active",
    "getRateLimitTtl": "limiter meta",
    "getDependencyCounts": "@:processed @:dependencies @:failed @:unsuccessful",
    "reprocessJob": "@ events {state} wait meta active marker prioritized pc",
    "removeChildDependency": ".",
    "removeUnprocessedChildren": "@ meta",
    "addJobScheduler": "repeat delayed wait paused meta prioritized marker id events pc active",
    "updateJobScheduler": "repeat delayed wait paused meta prioritized marker id events pc @ active",
    "getJobScheduler": "repeat",
    "removeJobScheduler": "repeat delayed events",
    "pause": "{state} meta prioritized events delayed marker",
    "drain": "wait paused delayed prioritized repeat",
    "cleanJobsInSet": "{state} events repeat",
    "obliterate": "meta .",
    "removeJob": "@ repeat",
    "removeOrphanedJobs": ".",
    "promote": "delayed wait paused meta prioritized active pc events marker",
    "changeDelay": "delayed meta marker events",
    "changePriority": "wait paused meta prioritized active pc marker",
    "moveJobsToWait": ". events {state} wait paused meta active marker",
    "getCounts": ".",
    "getCountsPerPriority": "wait prioritized",
    "getRanges": ".",
    "getJobs": ".",
    "getState": "completed failed delayed active wait paused waiting-children prioritized",
    "getStateV2": "completed failed delayed active wait paused waiting-children prioritized",
    "getMetrics": "metrics:{state} metrics:{state}:data",
    "paginate": "@:{state}",
    "isJobInList": "{state}",
}


@attrs.frozen
class Pack:
    """A value that travels as msgpack."""

    value: Any

    def __repr__(self) -> str:
        """As it is written."""
        return f"Pack({self.value!r})"


@attrs.frozen
class Call:
    """One call of a script.

    Attributes:
        script: Its name.
        keys: KEYS.
        args: ARGV, texts and ``Pack``.
        faulty: True for arguments that no correct client sends.
    """

    script: str
    keys: tuple[str, ...]
    args: tuple[Any, ...]
    faulty: bool = False

    def raw_args(self) -> list[str | bytes]:
        """ARGV as sent."""
        return [msgspec.msgpack.encode(arg.value) if isinstance(arg, Pack) else arg for arg in self.args]

    def __repr__(self) -> str:
        """As it is written."""
        faulty = ", faulty=True" if self.faulty else ""
        return f"Call({self.script!r}, {self.keys!r}, {self.args!r}{faulty})"


@attrs.frozen(repr=False, init=False)
class Command:
    """One plain command: what a client does without a script, or the passing of time."""

    parts: tuple[str, ...]

    def __init__(self, *parts: str) -> None:
        """Take the words of the command."""
        self.__attrs_init__(parts)

    def __repr__(self) -> str:
        """As it is written."""
        return f"Command({', '.join(map(repr, self.parts))})"


Step = Call | Command


def call(queue: str, script: str, *args: Any, job: str = "", state: str = "", keys: tuple[str, ...] = ()) -> Call:
    """Make a call with the KEYS its script wants; numbers become texts."""
    if not keys:
        names = KEYS[script].format(state=state).split()
        keys = tuple(f"{queue}:{name.replace('@', job) if name != '.' else ''}" for name in names)
    return Call(script, keys, tuple(arg if isinstance(arg, Pack | str) else str(arg) for arg in args))


def printed(steps: list[Step]) -> str:
    """Steps as a list to be pasted into ``test_regressions.py``."""
    return "[\n" + "".join(f"    {step!r},\n" for step in steps) + "]"
