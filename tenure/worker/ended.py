"""How an attempt ended, as the worker tells the store: from a result, an outcome or an exception to a settlement."""

import traceback
from typing import Any

import msgspec

from tenure.core import bound
from tenure.core.error import (
    AlreadySettled,
    Error,
    InvalidRequest,
    JobCancelled,
    JobNotFound,
    LeaseLost,
    RateLimited,
)
from tenure.core.state import SETTLE_CANCEL, SETTLE_COMPLETE, SETTLE_FAIL, SETTLE_RELEASE, SETTLE_SNOOZE
from tenure.task.codec import Undecodable
from tenure.task.outcome import Cancel, Outcome, Permanent, Retry, Snooze
from tenure.task.task import Settings

LOST = (JobCancelled, AlreadySettled, LeaseLost, JobNotFound)  # somebody else has ended the attempt
TRACE_FRAMES = 50
AROUND = ("/tenure/worker/", "/tenure/spark/")  # who calls handlers


class Ended(msgspec.Struct, array_like=True):
    """May come from another process. `verb` is one of `core.state.SETTLE_*`."""

    verb: int
    result: bytes | None = None
    type: str = ""
    message: str = ""
    trace: str = ""
    retryable: bool = True
    undecodable: bool = False
    delay_ms: int = 0
    pause_key: str = ""
    followups: bytes = b""


COMPLETED = Ended(SETTLE_COMPLETE)
RELEASED = Ended(SETTLE_RELEASE)
CANCELLED = Ended(SETTLE_CANCEL)


def failed(error: BaseException, retryable: bool = True, delay_ms: int = -1, undecodable: bool = False) -> Ended:
    return Ended(
        SETTLE_FAIL,
        type=_name_of(error),
        message=bound.clip("message", _message_of(error), bound.ERROR_MESSAGE_BYTES_MAX),
        trace=bound.clip("trace", _trace_of(error), bound.ERROR_TRACE_BYTES_MAX),
        retryable=retryable,
        undecodable=undecodable,
        delay_ms=delay_ms,
    )


def ended_by(error: BaseException, settings: Settings) -> Ended:
    """What an exception out of a handler, or an outcome that it returned, means."""
    if isinstance(error, Snooze):
        return Ended(SETTLE_SNOOZE, delay_ms=error.delay_ms)
    if isinstance(error, Cancel):
        return CANCELLED
    if isinstance(error, Retry):
        return failed(error, delay_ms=error.delay_ms)
    if isinstance(error, Permanent):
        return failed(error, retryable=False)
    if isinstance(error, Undecodable):
        return failed(error, retryable=False, undecodable=True)
    if isinstance(error, RateLimited):
        try:
            bound.key_text("key", error.what)
            bound.duration_ms("retry_after", error.retry_after_ms)
        except InvalidRequest as problem:
            return failed(problem, retryable=False)
        return Ended(SETTLE_RELEASE, delay_ms=error.retry_after_ms, pause_key=error.what)
    if settings.permanent and isinstance(error, settings.permanent):
        return failed(error, retryable=False)
    if settings.retry_on and not isinstance(error, settings.retry_on):
        return failed(error, retryable=False)
    return failed(error)


def is_outcome(value: Any) -> bool:
    return isinstance(value, (Outcome, RateLimited))


def _name_of(error: BaseException) -> str:
    kind = type(error)
    if isinstance(error, Error) or kind.__module__ in ("builtins", "tenure.task.outcome"):
        return kind.__qualname__
    return f"{kind.__module__}.{kind.__qualname__}"


def _message_of(error: BaseException) -> str:
    try:
        return str(error)
    except Exception as problem:  # an exception that cannot be shown is still a failure
        return f"(its message cannot be shown: {type(problem).__name__})"


def _trace_of(error: BaseException) -> str:
    """From the handler on: what the worker does around it is left out."""
    try:
        frames = traceback.extract_tb(error.__traceback__)
        own = [frame for frame in frames if not any(place in frame.filename for place in AROUND)][-TRACE_FRAMES:]
        text = "".join(traceback.format_list(own)) + "".join(traceback.format_exception_only(error))
    except Exception:
        return ""
    cause = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    return text if cause is None or cause is error else f"{_trace_of(cause)}\nand then\n\n{text}"
