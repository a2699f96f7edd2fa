"""Every way in which Tenure says no: one tree, the same over every transport.

An error has a code (its class name), a message that names the fix, whether a repeat can help, an HTTP status, and its
own fields. In batches errors are values in the answer, not raised.
"""

from typing import TYPE_CHECKING, ClassVar

if TYPE_CHECKING:
    from tenure.core.duration import Duration


class Error(Exception):
    """The root. `code` goes over the wire; `fields` are what the subclass adds."""

    retryable: ClassVar[bool] = False
    status: ClassVar[int] = 500

    def __init__(self, message: str, **fields: object) -> None:
        super().__init__(message)
        self.message = message
        self.fields = fields

    @property
    def code(self) -> str:
        return type(self).__name__

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and str(other) == str(self)

    def __hash__(self) -> int:
        return hash((type(self), str(self)))


class InvalidRequest(Error):
    status = 400

    def __init__(self, field: str, value: object, rule: str) -> None:
        try:
            shown = repr(value)
        except (ValueError, RecursionError):  # a whole number too long to be written out, or a value too deep
            shown = f"a {type(value).__name__} of enormous size"
        if len(shown) > 80:
            shown = shown[:77] + "..."
        super().__init__(f"{field}: {shown} is not accepted; {rule}", field=field, rule=rule)
        self.field = field
        self.value = value
        self.rule = rule


class PayloadTooLarge(Error):
    status = 413

    def __init__(self, size: int, max: int, field: str = "payload") -> None:
        super().__init__(
            f"{field} has {size} bytes, {max} are accepted; store it elsewhere and pass a reference", size=size, max=max
        )
        self.size = size
        self.max = max


class JobNotFound(Error):
    status = 404

    def __init__(self, job: int | str) -> None:
        super().__init__(f"no job {job!r} in this tenant; it may have been removed by retention", job=job)
        self.job = job


class QueueNotFound(Error):
    status = 404

    def __init__(self, queue: str) -> None:
        super().__init__(
            f"no queue {queue!r} in this tenant; a queue exists from its first job or setting", queue=queue
        )
        self.queue = queue


class DependencyNotFound(Error):
    status = 404

    def __init__(self, job: int) -> None:
        super().__init__(f"depends_on names job {job}, which this tenant does not have; leave it out", job=job)
        self.job = job


# Reasons of a lost lease when no token was given.
TOKEN_NOT_HELD = "this caller has not claimed it"
TOKEN_AMBIGUOUS = "no token was given, and an earlier lease was lost"


class LeaseLost(Error):
    status = 409

    def __init__(self, job: int, reason: str) -> None:
        super().__init__(f"the lease on job {job} is over ({reason}); stop working on it", job=job, reason=reason)
        self.job = job
        self.reason = reason


class JobCancelled(Error):
    status = 409

    def __init__(self, job: int) -> None:
        super().__init__(f"job {job} was cancelled; its result is not taken", job=job)
        self.job = job


class AlreadySettled(Error):
    status = 409

    def __init__(self, job: int, outcome: str) -> None:
        super().__init__(
            f"job {job} was settled before ({outcome}); read its state instead of settling it", job=job, outcome=outcome
        )
        self.job = job
        self.outcome = outcome


class Conflict(Error):
    status = 409

    def __init__(self, message: str, existing: int) -> None:
        super().__init__(message, existing=existing)
        self.existing = existing


class Overloaded(Error):
    status = 429
    retryable = True

    def __init__(self, what: str, retry_after_ms: int) -> None:
        super().__init__(f"{what} is full; try again in {retry_after_ms} ms", what=what, retry_after_ms=retry_after_ms)
        self.what = what
        self.retry_after_ms = retry_after_ms


class RateLimited(Error):
    """A handler raises it with a limit key, which is paused: `RateLimited("api:acme", "5s")`."""

    status = 429
    retryable = True

    def __init__(self, what: str, retry_after: "Duration" = 0, *, retry_after_ms: int = 0) -> None:
        from tenure.core.duration import milliseconds

        after_ms = retry_after_ms or milliseconds("retry_after", retry_after)
        super().__init__(f"{what} is over its rate; try again in {after_ms} ms", what=what, retry_after_ms=after_ms)
        self.what = what
        self.retry_after_ms = after_ms


class Unauthenticated(Error):
    status = 401


class Forbidden(Error):
    status = 403


class Unavailable(Error):
    status = 503
    retryable = True


class Unsupported(Error):
    status = 501

    def __init__(self, capability: str) -> None:
        super().__init__(f"this store cannot do {capability}; its capabilities say what it can", capability=capability)
        self.capability = capability


class CodecNotFound(Error):
    status = 422

    def __init__(self, codec: str) -> None:
        super().__init__(f"no codec {codec!r} is registered; register it or use another", codec=codec)
        self.codec = codec


class TaskNotRegistered(Error):
    status = 422

    def __init__(self, task: str) -> None:
        super().__init__(f"no worker has registered the task {task!r}; start one that knows it", task=task)
        self.task = task


class JobFailed(Error):
    status = 409

    def __init__(self, type: str, message: str, trace: str = "", reason: str = "") -> None:
        super().__init__(f"{type}: {message}" if type else message or reason, type=type, trace=trace, reason=reason)
        self.type = type
        self.trace = trace
        self.reason = reason


class EventsLost(Error):
    status = 410

    def __init__(self, oldest: int) -> None:
        super().__init__(f"events before seq {oldest} are past retention; go on from there", oldest=oldest)
        self.oldest = oldest


class Timeout(Error, TimeoutError):
    status = 504
    retryable = True


class Internal(Error):
    status = 500


def from_fields(code: str, message: str, fields: dict[str, object]) -> Error:
    """The error that was written down, or came over a wire, as its code, message and fields."""
    for kind in _kinds(Error):
        if kind.__name__ == code:
            error = kind.__new__(kind)
            Error.__init__(error, message, **fields)
            for name, value in fields.items():
                setattr(error, name, value)
            return error
    return Internal(message, **fields)


def _kinds(kind: type[Error]) -> list[type[Error]]:
    return [kind, *(found for child in kind.__subclasses__() for found in _kinds(child))]
