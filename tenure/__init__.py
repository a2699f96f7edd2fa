"""Tenure: a multi-tenant job queue for Python."""

from typing import TYPE_CHECKING

from tenure.app.app import App
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
from tenure.task.task import Task

if TYPE_CHECKING:
    from tenure.task.pickled import PickleCodec
    from tenure.task.sealed import SealedCodec

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

# What few programs use, and what costs milliseconds to import, is imported by the first to name it.
_LATER = {"PickleCodec": "tenure.task.pickled", "SealedCodec": "tenure.task.sealed"}

if not TYPE_CHECKING:  # a type checker would take every name for one of these

    def __getattr__(name: str) -> object:
        if name not in _LATER:
            raise AttributeError(f"module 'tenure' has no attribute {name!r}")
        from importlib import import_module

        return getattr(import_module(_LATER[name]), name)
