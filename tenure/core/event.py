"""The names of what happens. An event is one transition of one job, or one notice about a queue, limit or worker."""

from typing import Final

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

MESSAGE_BYTES_MAX: Final = 256
