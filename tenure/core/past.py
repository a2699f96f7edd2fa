"""What may be said of an imported job: the rules of `Past`, and the rows of a load from records that were read.

A record that breaks a rule is refused by field, before anything of its chunk is staged.
"""

from typing import Final

from tenure.core import bound
from tenure.core.bound import Rule, make_extras, make_options
from tenure.core.error import InvalidRequest, PayloadTooLarge
from tenure.core.job import Extras, Options
from tenure.core.record import Ended, Failed, JobRecord, Past, Progress
from tenure.core.state import CAUSE_NAMES, REASONS, STATE_NAMES

FINGERPRINT_BYTES_MAX: Final = 64
COUNT_MAX: Final = 2**31 - 1

_WAITING: Final = ("scheduled", "blocked", "ready", "retrying")
_TERMINAL: Final = ("completed", "failed", "cancelled")

_count: Final = bound.whole(0, COUNT_MAX)
_attempt: Final = bound.whole(0, bound.ATTEMPTS_MAX)
_source: Final = bound.whole(0, bound.ID_MAX)
_state: Final = bound.choice(STATE_NAMES)
_cause: Final = bound.choice(CAUSE_NAMES)
_reason: Final = bound.choice(("", *REASONS))

_RULES: Final[dict[str, Rule]] = {
    "id": _source,
    "state": _state,
    "attempt": _attempt,
    "delivery": _count,
    "run_at": bound.instant_ms,
    "lease_until": bound.instant_ms,
    "worker": bound.worker_name,
    "reason": _reason,
    "parent": _source,
    "replays": _count,
}
_FAILED_RULES: Final[dict[str, Rule]] = {
    "type": bound.text(bound.ERROR_TYPE_BYTES_MAX, True),
    "message": bound.text(bound.ERROR_MESSAGE_BYTES_MAX, True),
    "trace": bound.text(bound.ERROR_TRACE_BYTES_MAX, True),
    "fingerprint": bound.text(FINGERPRINT_BYTES_MAX, True),
}
_ENDED_RULES: Final[dict[str, Rule]] = {
    "attempt": _attempt,
    "delivery": _count,
    "worker": bound.worker_name,
    "cause": _cause,
}
_PROGRESS_RULES: Final[dict[str, Rule]] = {
    "percent": bound.whole(0, 100),
    "message": bound.text(bound.LOG_LINE_BYTES_MAX, True),
}


def check_row(past: object, options: Options, extras: Extras | None, now_ms: int, result_bytes_max: int) -> None:
    """Raises for the first thing that is wrong with a row of an import."""
    if not isinstance(past, Past):
        raise InvalidRequest("", past, "it must be a Past")
    _apply(_RULES, "", past)
    for field in ("created_at", "ready_at", "started_at", "ended_at"):
        _by_now(field, _of(past, field), now_ms)
    _check_progress(past, now_ms)
    _check_result(past, result_bytes_max)
    _check_error("error", _of(past, "error"))
    _check_history(past, now_ms)
    _check_counts(past, options)
    _check_times(past, now_ms)
    _check_options(past, options, extras)


def _of(value: object, field: str) -> object:
    """As it is: nothing has said yet that it is what its type claims."""
    found: object = getattr(value, field)
    return found


def _apply(rules: dict[str, Rule], prefix: str, value: object) -> None:
    for field, rule in rules.items():
        rule(prefix + field, _of(value, field))


def _by_now(field: str, value: object, now_ms: int) -> None:
    bound.instant_ms(field, value)
    if bound.as_int(value) > now_ms:
        raise InvalidRequest(field, value, f"it must not be after now, {now_ms}: set the clocks of the stores right")


def _check_progress(past: Past, now_ms: int) -> None:
    progress: object = _of(past, "progress")
    if progress is None:
        return
    if not isinstance(progress, Progress):
        raise InvalidRequest("progress", progress, "it must be a Progress or none")
    _apply(_PROGRESS_RULES, "progress.", progress)
    _by_now("progress.at", _of(progress, "at"), now_ms)


def _check_result(past: Past, bytes_max: int) -> None:
    result: object = _of(past, "result")
    if result is None:
        return
    if not isinstance(result, bytes):
        raise InvalidRequest("result", result, "it must be bytes or none")
    if len(result) > bytes_max:
        raise PayloadTooLarge(len(result), bytes_max, "result")
    if past.state != "completed":
        raise InvalidRequest("result", result, "only a completed job has one")


def _check_error(field: str, error: object) -> None:
    if error is None:
        return
    if not isinstance(error, Failed):
        raise InvalidRequest(field, error, "it must be a Failed or none")
    _apply(_FAILED_RULES, f"{field}.", error)


def _check_history(past: Past, now_ms: int) -> None:
    history: object = _of(past, "history")
    if not isinstance(history, (tuple, list)) or len(history) > bound.HISTORY_MAX:
        raise InvalidRequest("history", history, f"it must be a list of at most {bound.HISTORY_MAX} attempts")
    for at, ended in enumerate(history):
        prefix = f"history[{at}]"
        if not isinstance(ended, Ended):
            raise InvalidRequest(prefix, ended, "it must be an Ended")
        _apply(_ENDED_RULES, f"{prefix}.", ended)
        _by_now(f"{prefix}.started_at", _of(ended, "started_at"), now_ms)
        _by_now(f"{prefix}.ended_at", _of(ended, "ended_at"), now_ms)
        _check_error(f"{prefix}.error", _of(ended, "error"))


def _check_counts(past: Past, options: Options) -> None:
    """A job that still waits has an attempt left; one that ran was leased."""
    ran = past.state in ("running", "retrying", "completed")
    if past.delivery < max(past.attempt, 1 if ran else 0):
        raise InvalidRequest("delivery", past.delivery, "every attempt is a delivery; give at least as many")
    if past.state in ("running", "completed") and past.attempt == 0:
        raise InvalidRequest("attempt", past.attempt, f"a {past.state} job is at its first attempt or later")
    most = options.max_attempts
    if most and past.attempt > most - (1 if past.state in _WAITING else 0):
        raise InvalidRequest(
            "attempt", past.attempt, f"a {past.state} job has fewer of its max_attempts, {most}, spent"
        )


def _check_times(past: Past, now_ms: int) -> None:
    if past.created_at == 0:
        raise InvalidRequest("created_at", 0, "say when the job was enqueued")
    is_over = past.state in _TERMINAL
    if is_over and past.ended_at < past.created_at:
        raise InvalidRequest("ended_at", past.ended_at, f"a {past.state} job ended after it was enqueued")
    if not is_over and past.ended_at:
        raise InvalidRequest("ended_at", past.ended_at, f"a {past.state} job has not ended")
    if past.state in ("scheduled", "retrying") and past.run_at == 0:
        raise InvalidRequest("run_at", 0, f"a {past.state} job waits for a time; say which")
    if past.lease_until and past.state != "running":
        raise InvalidRequest("lease_until", past.lease_until, "only a running job has a lease")
    if past.lease_until > now_ms + bound.LEASE_MS_MAX:
        raise InvalidRequest("lease_until", past.lease_until, f"no lease is longer than {bound.LEASE_MS_MAX} ms")
    if (past.state == "failed") != bool(past.reason):
        raise InvalidRequest("reason", past.reason, "a failed job has one, and no other")


def _check_options(past: Past, options: Options, extras: Extras | None) -> None:
    for field in ("delay_ms", "ttl_ms", "debounce_ms"):
        if getattr(options, field):
            raise InvalidRequest(
                field, getattr(options, field), "an imported job has times, not durations: leave it out"
            )
    if extras is not None and extras.run_at:
        raise InvalidRequest("run_at", extras.run_at, "say it in the past, not in the extras")
    if extras is not None and extras.debounce_key:
        raise InvalidRequest("debounce_key", extras.debounce_key, "windows are not imported: leave it out")
    if past.state == "blocked" and (extras is None or not extras.depends_on):
        raise InvalidRequest("depends_on", (), "a blocked job waits for others; name them")


def row_of(record: JobRecord, **unseen: object) -> tuple[Options, Extras, Past]:
    """A record as it was read, as a row to import. `unseen` are options that readers are not shown: backoff, keys."""
    seen = {
        "queue": record.queue,
        "task": record.task,
        "priority": record.priority,
        "max_attempts": record.max_attempts,
        "codec": record.codec,
        "schema_version": record.schema_version,
    }
    own: dict[str, object] = {
        "custom_id": record.custom_id,
        "group": record.group,
        "tags": record.tags,
        "metadata": record.metadata,
        "depends_on": record.depends_on,
        "expires_at": record.expires_at,
        "trace": record.trace,
    }
    shared = {field: value for field, value in unseen.items() if field in bound.OPTION_RULES}
    rest = {field: value for field, value in unseen.items() if field not in bound.OPTION_RULES}
    past = Past(
        id=record.id,
        state=record.state,
        attempt=record.attempt,
        delivery=record.delivery,
        created_at=record.created_at,
        run_at=record.run_at,
        ready_at=record.ready_at,
        started_at=record.started_at,
        ended_at=record.ended_at,
        lease_until=record.lease_until,
        worker=record.worker,
        progress=record.progress,
        result=record.result,
        error=record.error,
        reason=record.reason,
        parent=record.parent,
        replays=record.replays,
        history=record.history,
    )
    return (
        make_options(**{**seen, **shared}),
        make_extras(**{**{field: value for field, value in own.items() if value}, **rest}),
        past,
    )
