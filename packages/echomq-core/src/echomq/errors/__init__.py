"""Every error EchoMQ raises, in one tree.

The type says whose turn it is: :class:`UsageError` is the caller's and is raised
before anything is sent, :class:`ScriptError` is the server's answer about one
job, :class:`DriverError` is the link's or the server's, :class:`ProtocolError`
is data outside the contract, :class:`PluginError` an extension's. What job code
raises to steer its own job is a :class:`JobSignal`; see :mod:`echomq.signals`.

Source: protocol spec 01 section 12 (reply codes).
"""

from .links import ConnectionClosed, ConnectionLost, DriverError, ReplyTimeout, ServerNotReady, ServerRefused
from .outcomes import (
    BulkAddFailed,
    FlowFailed,
    JobFailed,
    JobRemoved,
    JobTimedOut,
    ProcessDied,
    RaisedInProcess,
    ResultTimeout,
)
from .roots import EchoMQError, JobSignal, PluginError, ProtocolError
from .scripts import (
    SCRIPT_ERRORS,
    JobBelongsToScheduler,
    JobHasFailedChildren,
    JobHasPendingChildren,
    JobLocked,
    JobNotFound,
    JobNotInState,
    LockMismatch,
    LockMissing,
    ParentConflict,
    ParentNotFound,
    QueueHasActiveJobs,
    QueueNotPaused,
    SchedulerCollision,
    SchedulerSlotsBusy,
    ScriptError,
    script_error,
)
from .usage import DriverMissing, InvalidOption, NotEncodable, UnknownOption, UsageError

__all__ = [
    "SCRIPT_ERRORS",
    "BulkAddFailed",
    "ConnectionClosed",
    "ConnectionLost",
    "DriverError",
    "DriverMissing",
    "EchoMQError",
    "FlowFailed",
    "InvalidOption",
    "JobBelongsToScheduler",
    "JobFailed",
    "JobHasFailedChildren",
    "JobHasPendingChildren",
    "JobLocked",
    "JobNotFound",
    "JobNotInState",
    "JobRemoved",
    "JobSignal",
    "JobTimedOut",
    "LockMismatch",
    "LockMissing",
    "NotEncodable",
    "ParentConflict",
    "ParentNotFound",
    "PluginError",
    "ProcessDied",
    "ProtocolError",
    "QueueHasActiveJobs",
    "QueueNotPaused",
    "RaisedInProcess",
    "ReplyTimeout",
    "ResultTimeout",
    "SchedulerCollision",
    "SchedulerSlotsBusy",
    "ScriptError",
    "ServerNotReady",
    "ServerRefused",
    "UnknownOption",
    "UsageError",
    "script_error",
]

for _error in list(globals().values()):
    if isinstance(_error, type):
        _error.__module__ = __name__  # the name that users import it by, in tracebacks and stored stack traces
