"""One tree of errors: what each is called, what it answers over HTTP, whether a repeat helps, what it tells."""

from collections.abc import Callable

import pytest

import tenure
from tenure.core import error as tree
from tenure.core.error import Error

# Name, status, whether a retry can help: written out from section 18 of the semantics.
TABLE = [
    ("InvalidRequest", 400, False),
    ("Unauthenticated", 401, False),
    ("Forbidden", 403, False),
    ("JobNotFound", 404, False),
    ("QueueNotFound", 404, False),
    ("DependencyNotFound", 404, False),
    ("LeaseLost", 409, False),
    ("JobCancelled", 409, False),
    ("AlreadySettled", 409, False),
    ("Conflict", 409, False),
    ("JobFailed", 409, False),
    ("EventsLost", 410, False),
    ("PayloadTooLarge", 413, False),
    ("TaskNotRegistered", 422, False),
    ("CodecNotFound", 422, False),
    ("Overloaded", 429, True),
    ("RateLimited", 429, True),
    ("Internal", 500, False),
    ("Unsupported", 501, False),
    ("Unavailable", 503, True),
    ("Timeout", 504, True),
]

SAMPLES: dict[str, Callable[[], Error]] = {
    "InvalidRequest": lambda: tree.InvalidRequest("queue", "a b", "it must be a name"),
    "Unauthenticated": lambda: tree.Unauthenticated("no token was given; send one"),
    "Forbidden": lambda: tree.Forbidden("this needs the role operator; ask for it"),
    "JobNotFound": lambda: tree.JobNotFound(17),
    "QueueNotFound": lambda: tree.QueueNotFound("mail"),
    "DependencyNotFound": lambda: tree.DependencyNotFound(17),
    "LeaseLost": lambda: tree.LeaseLost(17, "expired"),
    "JobCancelled": lambda: tree.JobCancelled(17),
    "AlreadySettled": lambda: tree.AlreadySettled(17, "completed"),
    "Conflict": lambda: tree.Conflict("job 17 has this key; choose another", 17),
    "JobFailed": lambda: tree.JobFailed("ValueError", "boom", "line 1", "permanent"),
    "EventsLost": lambda: tree.EventsLost(17),
    "PayloadTooLarge": lambda: tree.PayloadTooLarge(11, 10),
    "TaskNotRegistered": lambda: tree.TaskNotRegistered("ship"),
    "CodecNotFound": lambda: tree.CodecNotFound("yaml"),
    "Overloaded": lambda: tree.Overloaded("the store", 250),
    "RateLimited": lambda: tree.RateLimited("api:mail", "250ms"),
    "Internal": lambda: tree.Internal("an invariant does not hold; report this"),
    "Unsupported": lambda: tree.Unsupported("schedules"),
    "Unavailable": lambda: tree.Unavailable("the store is closed; open it"),
    "Timeout": lambda: tree.Timeout("job 17 did not end in time; it goes on"),
}

# What each tells besides its message.
FIELDS: dict[str, dict[str, object]] = {
    "InvalidRequest": {"field": "queue", "rule": "it must be a name"},
    "JobNotFound": {"job": 17},
    "QueueNotFound": {"queue": "mail"},
    "DependencyNotFound": {"job": 17},
    "LeaseLost": {"job": 17, "reason": "expired"},
    "JobCancelled": {"job": 17},
    "AlreadySettled": {"job": 17, "outcome": "completed"},
    "Conflict": {"existing": 17},
    "JobFailed": {"type": "ValueError", "trace": "line 1", "reason": "permanent"},
    "EventsLost": {"oldest": 17},
    "PayloadTooLarge": {"size": 11, "max": 10},
    "TaskNotRegistered": {"task": "ship"},
    "CodecNotFound": {"codec": "yaml"},
    "Overloaded": {"retry_after_ms": 250},
    "RateLimited": {"retry_after_ms": 250},
    "Unsupported": {"capability": "schedules"},
}

NAMES = [name for name, _, _ in TABLE]


def descendants(kind: type[Error]) -> set[type[Error]]:
    return {kind}.union(*(descendants(child) for child in kind.__subclasses__()))


def test_table_is_the_whole_tree() -> None:
    own = {kind.__name__ for kind in descendants(Error) if kind.__module__ == tree.__name__}
    assert own == {"Error", *NAMES}


@pytest.mark.parametrize(("name", "status", "retryable"), TABLE)
def test_error_has_its_status_and_says_whether_a_retry_helps(name: str, status: int, retryable: bool) -> None:
    error = SAMPLES[name]()
    assert error.status == status
    assert error.retryable is retryable


@pytest.mark.parametrize("name", NAMES)
def test_code_is_the_name(name: str) -> None:
    assert SAMPLES[name]().code == name


@pytest.mark.parametrize("name", NAMES)
def test_error_is_one_of_ours_and_public(name: str) -> None:
    assert getattr(tenure, name) is type(SAMPLES[name]())
    assert name in tenure.__all__
    assert isinstance(SAMPLES[name](), tenure.Error)


@pytest.mark.parametrize("name", FIELDS)
def test_error_tells_its_fields(name: str) -> None:
    error = SAMPLES[name]()
    for field, value in FIELDS[name].items():
        assert getattr(error, field) == value
        assert error.fields[field] == value


@pytest.mark.parametrize("name", NAMES)
def test_message_is_what_the_error_shows(name: str) -> None:
    error = SAMPLES[name]()
    assert str(error) == error.message == error.args[0]
    assert error.message


# The clause that says what to do, or why the thing is as it is.
FIXES = [
    ("InvalidRequest", "it must be a name"),
    ("PayloadTooLarge", "store it elsewhere and pass a reference"),
    ("JobNotFound", "it may have been removed by retention"),
    ("QueueNotFound", "a queue exists from its first job or setting"),
    ("LeaseLost", "stop working on it"),
    ("Overloaded", "try again in 250 ms"),
    ("RateLimited", "try again in 250 ms"),
    ("EventsLost", "go on from there"),
    ("Unsupported", "its capabilities say what it can"),
    ("JobCancelled", "its result is not taken"),
]


@pytest.mark.parametrize(("name", "fix"), FIXES)
def test_message_names_the_fix(name: str, fix: str) -> None:
    assert SAMPLES[name]().message.endswith(fix)


@pytest.mark.parametrize("name", [name for name in NAMES if "existing" not in FIELDS.get(name, {})])
def test_message_names_what_it_is_about(name: str) -> None:
    told = [str(value) for field, value in FIELDS.get(name, {}).items() if field not in {"trace", "reason", "rule"}]
    assert all(value in SAMPLES[name]().message for value in told)


def test_timeout_is_that_of_python_too() -> None:
    assert isinstance(SAMPLES["Timeout"](), TimeoutError)


def test_errors_are_equal_when_they_say_the_same() -> None:
    assert tree.JobNotFound(1) == tree.JobNotFound(1)
    assert hash(tree.JobNotFound(1)) == hash(tree.JobNotFound(1))
    assert tree.JobNotFound(1) != tree.JobNotFound(2)
    assert tree.Unavailable("x") != tree.Internal("x")
    assert tree.Unavailable("x") != "x"


def test_failed_job_shows_its_error_or_else_its_reason() -> None:
    assert str(tree.JobFailed("ValueError", "boom")) == "ValueError: boom"
    assert str(tree.JobFailed("", "boom")) == "boom"
    assert str(tree.JobFailed("", "", reason="discarded")) == "discarded"


def test_output_that_is_too_large_is_called_by_its_name() -> None:
    assert str(tree.PayloadTooLarge(11, 10, "result")).startswith("result has 11 bytes, 10 are accepted")
