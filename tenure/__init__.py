"""Tenure: a multi-tenant job queue for Python."""

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
from tenure.task.context import Context, current
from tenure.task.depends import Depends
from tenure.task.job import Job
from tenure.task.outcome import Cancel, Permanent, Retry, Snooze
from tenure.task.task import Task

__all__ = [
    "AlreadySettled",
    "App",
    "Backoff",
    "Bound",
    "Cancel",
    "Client",
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
    "QueueNotFound",
    "Rate",
    "RateLimited",
    "Retry",
    "Settled",
    "Snooze",
    "SyncClient",
    "Task",
    "TaskNotRegistered",
    "Timeout",
    "Unauthenticated",
    "Unavailable",
    "Unsupported",
    "connect",
    "connect_sync",
    "current",
]
