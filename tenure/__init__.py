"""Tenure: a multi-tenant job queue for Python."""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tenure.app.app import App
    from tenure.app.many import Sent
    from tenure.client.client import Client, Enqueued, Leased, Settled, connect
    from tenure.client.sync import SyncClient, connect_sync
    from tenure.core.error import (
        AlreadySettled,
        CodecNotFound,
        Conflict,
        DependencyNotFound,
        Error,
        EventsLost,
        Forbidden,
        Internal,
        InvalidRequest,
        JobCancelled,
        JobFailed,
        JobNotFound,
        LeaseLost,
        Overloaded,
        PayloadTooLarge,
        QueueNotFound,
        RateLimited,
        TaskNotRegistered,
        Timeout,
        Unauthenticated,
        Unavailable,
        Unsupported,
    )
    from tenure.core.limit import Rate
    from tenure.core.record import Event, Explanation, JobRecord
    from tenure.core.retry import Backoff
    from tenure.task.bound import Bound
    from tenure.task.codec import Codec, Undecodable, Unencodable
    from tenure.task.context import Context, current
    from tenure.task.depends import Depends
    from tenure.task.job import Job
    from tenure.task.outcome import Cancel, Permanent, Retry, Snooze
    from tenure.task.pickled import PickleCodec
    from tenure.task.sealed import SealedCodec
    from tenure.task.task import Task

# Where each name is. It is imported when it is first asked for: the command line, which imports this package too, would
# else wait for the engine before it could show its help.
_HOMES = {
    "App": "tenure.app.app",
    "Sent": "tenure.app.many",
    "Client": "tenure.client.client",
    "Enqueued": "tenure.client.client",
    "Leased": "tenure.client.client",
    "Settled": "tenure.client.client",
    "connect": "tenure.client.client",
    "SyncClient": "tenure.client.sync",
    "connect_sync": "tenure.client.sync",
    "AlreadySettled": "tenure.core.error",
    "CodecNotFound": "tenure.core.error",
    "Conflict": "tenure.core.error",
    "DependencyNotFound": "tenure.core.error",
    "Error": "tenure.core.error",
    "EventsLost": "tenure.core.error",
    "Forbidden": "tenure.core.error",
    "Internal": "tenure.core.error",
    "InvalidRequest": "tenure.core.error",
    "JobCancelled": "tenure.core.error",
    "JobFailed": "tenure.core.error",
    "JobNotFound": "tenure.core.error",
    "LeaseLost": "tenure.core.error",
    "Overloaded": "tenure.core.error",
    "PayloadTooLarge": "tenure.core.error",
    "QueueNotFound": "tenure.core.error",
    "RateLimited": "tenure.core.error",
    "TaskNotRegistered": "tenure.core.error",
    "Timeout": "tenure.core.error",
    "Unauthenticated": "tenure.core.error",
    "Unavailable": "tenure.core.error",
    "Unsupported": "tenure.core.error",
    "Rate": "tenure.core.limit",
    "Event": "tenure.core.record",
    "Explanation": "tenure.core.record",
    "JobRecord": "tenure.core.record",
    "Backoff": "tenure.core.retry",
    "Bound": "tenure.task.bound",
    "Codec": "tenure.task.codec",
    "Undecodable": "tenure.task.codec",
    "Unencodable": "tenure.task.codec",
    "PickleCodec": "tenure.task.pickled",
    "SealedCodec": "tenure.task.sealed",
    "Context": "tenure.task.context",
    "current": "tenure.task.context",
    "Depends": "tenure.task.depends",
    "Job": "tenure.task.job",
    "Cancel": "tenure.task.outcome",
    "Permanent": "tenure.task.outcome",
    "Retry": "tenure.task.outcome",
    "Snooze": "tenure.task.outcome",
    "Task": "tenure.task.task",
}

__all__ = [
    "AlreadySettled",
    "App",
    "Backoff",
    "Bound",
    "Cancel",
    "Client",
    "Codec",
    "CodecNotFound",
    "Conflict",
    "Context",
    "DependencyNotFound",
    "Depends",
    "Enqueued",
    "Error",
    "Event",
    "EventsLost",
    "Explanation",
    "Forbidden",
    "Internal",
    "InvalidRequest",
    "Job",
    "JobCancelled",
    "JobFailed",
    "JobNotFound",
    "JobRecord",
    "LeaseLost",
    "Leased",
    "Overloaded",
    "PayloadTooLarge",
    "Permanent",
    "PickleCodec",
    "QueueNotFound",
    "Rate",
    "RateLimited",
    "Retry",
    "SealedCodec",
    "Sent",
    "Settled",
    "Snooze",
    "SyncClient",
    "Task",
    "TaskNotRegistered",
    "Timeout",
    "Unauthenticated",
    "Unavailable",
    "Undecodable",
    "Unencodable",
    "Unsupported",
    "connect",
    "connect_sync",
    "current",
]

if not TYPE_CHECKING:

    def __getattr__(name):
        home = _HOMES.get(name)
        if home is None:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        found = globals()[name] = getattr(import_module(home), name)
        return found

    def __dir__():
        return sorted({*globals(), *__all__})
