"""The names of what happens. An event is one transition of one job, or one notice about a queue, limit or worker."""

from typing import Final

from tenure.core import state

ENQUEUED: Final = 0
READY: Final = 1
STARTED: Final = 2
PROGRESS: Final = 3
COMPLETED: Final = 4
RETRYING: Final = 5
FAILED: Final = 6
CANCELLED: Final = 7
RELEASED: Final = 8
REPLAYED: Final = 9
UPDATED: Final = 10
REMOVED: Final = 11
PAUSED: Final = 12
RESUMED: Final = 13
LIMITS_CHANGED: Final = 14
SCHEDULE_FIRED: Final = 15
SCHEDULE_MISSED: Final = 16
FLOW_ENDED: Final = 17
WORKER_JOINED: Final = 18
WORKER_LEFT: Final = 19

EVENT_NAMES: Final = (
    "enqueued",
    "ready",
    "started",
    "progress",
    "completed",
    "retrying",
    "failed",
    "cancelled",
    "released",
    "replayed",
    "updated",
    "removed",
    "paused",
    "resumed",
    "limits_changed",
    "schedule_fired",
    "schedule_missed",
    "flow_ended",
    "worker_joined",
    "worker_left",
)

# What a step of a job's life is called: by where it leads if that is an end, else by its cause.
_OF_END: Final = {state.COMPLETED: COMPLETED, state.FAILED: FAILED, state.CANCELLED: CANCELLED, state.GONE: REMOVED}
_OF_CAUSE: Final = {
    state.ENQUEUE: ENQUEUED,
    state.IMPORT: ENQUEUED,
    state.CLAIM: STARTED,
    state.FAIL: RETRYING,
    state.EXPIRE_LEASE: RETRYING,
    state.TIME_OUT: RETRYING,
    state.RELEASE: RELEASED,
    state.SNOOZE: RELEASED,
    state.DUE: READY,
    state.PROMOTE: READY,
    state.DELAY: UPDATED,
    state.UPDATE: UPDATED,
    state.REPLAY: REPLAYED,
}


def type_of_step(cause: int, after: int) -> int:
    """The type of the event for a step with this cause into this state."""
    if cause == state.SATISFY:
        return READY if after == state.READY else UPDATED
    if after in _OF_END and cause != state.IMPORT:
        return _OF_END[after]
    return _OF_CAUSE[cause]


MESSAGE_BYTES_MAX: Final = 256
