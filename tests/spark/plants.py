"""Violations, planted one at a time into a sound history: what is spoiled, and what an audit must say of it.

Each changes as little as it can. What it must find is exact: these checks for these jobs, and nothing else.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

import msgspec

from tenure.core.record import Event
from tests.spark.scenario import Scenario

Found = set[tuple[str, int]]


@dataclass
class Case:
    """A history with its ledger and the store's jobs, to be spoiled."""

    jobs: dict[str, int]
    events: list[Event]
    ledger: list[int]
    stored: dict[int, str] = field(default_factory=dict)

    def at(self, name: str, type: str, which: int = 0) -> int:
        """Where the event stands."""
        places = [at for at, event in enumerate(self.events) if event.job == self.jobs[name] and event.type == type]
        return places[which]

    def put(self, place: int, /, **fields: object) -> None:
        self.events[place] = msgspec.structs.replace(self.events[place], **fields)

    def change(self, name: str, event: str, /, which: int = 0, **fields: object) -> None:
        self.put(self.at(name, event, which), **fields)

    def insert(self, place: int, event: Event, /, **fields: object) -> None:
        self.events.insert(place, msgspec.structs.replace(event, **fields))
        self.number()

    def drop(self, at: int, job_seq: bool = True) -> None:
        del self.events[at]
        self.number(job_seq)

    def number(self, job_seq: bool = True) -> None:
        """Without a gap again."""
        last: dict[int, int] = {}
        for at, event in enumerate(self.events):
            last[event.job] = last.get(event.job, 0) + 1
            own = last[event.job] if event.job and job_seq else event.job_seq
            self.put(at, seq=at + 1, job_seq=own)

    def set_limit(self, place: str, **detail: object) -> None:
        """Of the first change of limits that has this word: a queue, a key, a tenant."""
        for at, event in enumerate(self.events):
            if event.type == "limits_changed" and place in (
                event.queue,
                event.detail.get("key"),
                event.detail.get("tenant"),
            ):
                self.put(at, detail={**event.detail, **detail})
                return
        raise LookupError(place)


def case_of(play: Scenario) -> Case:
    return Case(dict(play.jobs), play.events(), sorted(play.jobs.values()), dict(play.states()))


@dataclass(frozen=True)
class Plant:
    name: str
    expected: tuple[tuple[str, str], ...]  # checks, and the names of jobs ("" for none)
    spoil: Callable[[Case], None]

    def found(self, jobs: dict[str, int]) -> Found:
        return {
            (check, jobs.get(name, int(name or 0) if not name or name.isdigit() else -1))
            for check, name in self.expected
        }


PLANTS: Final[list[Plant]] = []


def plant(*expected: tuple[str, str]) -> Callable[[Callable[[Case], None]], Callable[[Case], None]]:
    def add(spoil: Callable[[Case], None]) -> Callable[[Case], None]:
        PLANTS.append(Plant(spoil.__name__, expected, spoil))
        return spoil

    return add


# Paths.


@plant(("state_told", "simple"))
def type_and_state_differ(case: Case) -> None:
    case.change("simple", "completed", type="failed", reason="discarded")


@plant(("state_told", "simple"))
def state_is_not_told(case: Case) -> None:
    case.change("simple", "progress", state="")


@plant(("state_told", "simple"))
def state_is_unheard_of(case: Case) -> None:
    case.change("simple", "progress", state="dreaming")


@plant(("ended_once", "simple"))
def completed_and_cancelled(case: Case) -> None:
    at = case.at("simple", "completed")
    case.insert(at + 1, case.events[at], type="cancelled", state="cancelled", cause="cancel", started_at=0)
    case.stored[case.jobs["simple"]] = "cancelled"


@plant(("ended_once", "cancelled"))
def cancelled_and_discarded(case: Case) -> None:
    at = case.at("cancelled", "cancelled")
    case.insert(at + 1, case.events[at], type="failed", state="failed", cause="discard", reason="discarded")
    case.stored[case.jobs["cancelled"]] = "failed"


@plant(("one_lease", "simple"))
def leased_while_leased(case: Case) -> None:
    at = case.at("simple", "started")
    case.insert(at + 1, case.events[at], attempt=2, delivery=2)
    case.change("simple", "progress", attempt=2, delivery=2)
    case.change("simple", "completed", attempt=2, delivery=2)


@plant(("cancel_wins", "cancelled"))
def started_after_cancel(case: Case) -> None:
    at = case.at("cancelled", "cancelled")
    start = case.events[case.at("simple", "started")]
    job, then = case.jobs["cancelled"], case.events[at].at
    case.insert(at + 1, start, job=job, at=then, started_at=then, ready_at=then, wait_ms=0)
    case.stored[job] = "running"


@plant(("on_the_path", "simple"))
def completed_by_expiry(case: Case) -> None:
    case.change("simple", "completed", cause="expire")


@plant(("on_the_path", "delayed"))
def scheduled_job_starts(case: Case) -> None:
    case.drop(case.at("delayed", "ready"))


@plant(("job_seq_dense", "simple"))
def event_of_a_job_is_lost(case: Case) -> None:
    case.drop(case.at("simple", "progress"), job_seq=False)


@plant(("seq_rises", "changed"))
def later_event_has_the_smaller_seq(case: Case) -> None:
    one, other = case.at("changed", "updated"), case.at("changed", "updated", 1)
    one_seq, other_seq = case.events[one].seq, case.events[other].seq
    case.put(one, seq=other_seq)
    case.put(other, seq=one_seq)


@plant(("time_rises", "changed"))
def time_falls(case: Case) -> None:
    at = case.at("changed", "updated", 1)
    case.put(at, at=case.events[at].at - 1)


@plant(("begins_enqueued", "simple"), ("accepted_is_there", "simple"))
def job_from_nowhere(case: Case) -> None:
    case.drop(case.at("simple", "enqueued"), job_seq=False)


@plant(("one_id", "simple"), ("accepted_is_there", "last"))
def id_is_given_again(case: Case) -> None:
    last, simple = case.jobs["last"], case.jobs["simple"]
    del case.stored[last]
    for at, event in enumerate(case.events):
        if event.job == last:
            case.put(at, job=simple)


@plant(("deliveries", "simple"))
def delivery_is_given_back(case: Case) -> None:
    case.change("simple", "completed", delivery=0)


@plant(("one_place", "simple"))
def job_goes_to_another_tenant(case: Case) -> None:
    case.change("simple", "completed", tenant="small")


# Attempts.


@plant(("ended_by_holder", "simple"))
def another_worker_completes(case: Case) -> None:
    case.change("simple", "completed", worker="w-2")


@plant(("ended_by_holder", "retried"))
def first_attempt_ends_the_second(case: Case) -> None:
    first, at = case.events[case.at("retried", "started")].at, case.at("retried", "completed")
    case.put(at, started_at=first, ready_at=first, wait_ms=0, run_ms=case.events[at].at - first)


@plant(("within_max_attempts", "brought"))
def one_attempt_too_many(case: Case) -> None:
    case.change("brought", "enqueued", max_attempts=1)


@plant(("attempts_counted", "simple"))
def attempt_is_counted_twice(case: Case) -> None:
    case.change("simple", "completed", attempt=2)


@plant(("attempts_counted", "snoozed"))
def snooze_spends_an_attempt(case: Case) -> None:
    for which in (1, 2):
        case.change("snoozed", "started", which, attempt=2)
    for type in ("released", "completed"):
        case.change("snoozed", type, -1, attempt=2)


@plant(("exactly_n_runs", "exhausted"))
def given_up_too_early(case: Case) -> None:
    case.change("exhausted", "enqueued", max_attempts=3)


@plant(("exactly_n_runs", "lapsed"), ("within_max_attempts", "lapsed"))
def tried_once_too_often(case: Case) -> None:
    case.change("lapsed", "enqueued", max_attempts=1)


# Times.


@plant(("not_before_run_at", "delayed"))
def ready_before_its_time(case: Case) -> None:
    at = case.at("delayed", "enqueued")
    case.put(at, run_at=case.events[at].run_at + 1)


@plant(("not_before_run_at", "postponed"))
def started_before_it_was_postponed_to(case: Case) -> None:
    at = case.at("postponed", "updated")
    case.put(at, run_at=case.events[at].run_at + 60_000)


@plant(("not_after_expiry", "in-time"))
def started_when_expired(case: Case) -> None:
    case.change("in-time", "enqueued", expires_at=case.events[case.at("in-time", "started")].at)


# What an event says of its attempt.


@plant(("durations_told", "retried"))
def run_is_told_longer_than_it_was(case: Case) -> None:
    at = case.at("retried", "retrying")
    case.put(at, run_ms=case.events[at].run_ms + 1)


@plant(("durations_told", "simple"))
def run_is_told_shorter_than_it_was(case: Case) -> None:
    case.change("simple", "completed", run_ms=0)


@plant(("durations_told", "simple"))
def run_is_negative(case: Case) -> None:
    case.change("simple", "completed", run_ms=-5)


@plant(("durations_told", "changed"))
def wait_is_told_shorter_than_it_was(case: Case) -> None:
    case.change("changed", "completed", wait_ms=3)


@plant(("durations_told", "changed"))
def wait_is_told_otherwise_at_the_start(case: Case) -> None:
    case.change("changed", "started", wait_ms=1)


@plant(("durations_told", "changed"))
def wait_is_negative_as_its_times_are(case: Case) -> None:
    at = case.at("changed", "completed")
    case.put(at, ready_at=case.events[at].started_at + 7, wait_ms=-7)


@plant(("enqueued_at_kept", "retried"))
def enqueue_is_told_at_another_time(case: Case) -> None:
    at = case.at("retried", "completed")
    case.put(at, enqueued_at=case.events[at].enqueued_at - 1)


@plant(("enqueued_at_kept", "brought"))
def enqueue_of_an_imported_job_is_told_at_another_time(case: Case) -> None:
    at = case.at("brought", "completed")
    case.put(at, enqueued_at=case.events[at].enqueued_at + 1)


@plant(("error_told", "retried"))
def retry_has_no_error(case: Case) -> None:
    case.change("retried", "retrying", error_type="", message="", fingerprint="")


@plant(("error_told", "lapsed"))
def retry_after_a_lease_has_no_fingerprint(case: Case) -> None:
    case.change("lapsed", "retrying", fingerprint="")


@plant(("error_told", "exhausted"))
def dead_letter_has_no_type(case: Case) -> None:
    case.change("exhausted", "failed", error_type="")


@plant(("error_told", "overtime"))
def dead_letter_has_no_message(case: Case) -> None:
    case.change("overtime", "failed", message="")


@plant(("error_told", "exhausted"))
def dead_letter_has_the_fingerprint_of_another_error(case: Case) -> None:
    case.change("exhausted", "failed", message="it bent")


@plant(("error_told", "expires"))
def dead_letter_has_no_reason(case: Case) -> None:
    case.change("expires", "failed", reason="")


# Removal.


@plant(("gone_stays_gone", "removed"))
def removed_twice(case: Case) -> None:
    at = case.at("removed", "removed")
    case.insert(at + 1, case.events[at])


@plant(("gone_stays_gone", "removed"))
def completed_after_it_was_removed(case: Case) -> None:
    at = case.at("removed", "removed")
    fields = {"type": "completed", "state": "completed", "cause": "complete"}
    case.insert(at + 1, case.events[at], **fields)
    case.stored[case.jobs["removed"]] = "completed"


@plant(("gone_stays_gone", "removed"), ("job_seq_dense", "removed"))
def told_of_long_after_it_was_removed(case: Case) -> None:
    at = case.at("removed", "removed")
    case.insert(at + 1, case.events[at], type="updated", state="ready", cause="update")
    case.put(at + 1, job_seq=case.events[at].job_seq + 5)
    case.stored[case.jobs["removed"]] = "ready"


@plant(("gone_stays_gone", "removed"), ("state_told", "removed"))
def told_of_without_a_cause_after_it_was_removed(case: Case) -> None:
    at = case.at("removed", "removed")
    case.insert(at + 1, case.events[at], type="progress", state="running", cause="")
    case.stored[case.jobs["removed"]] = "running"


# Limits.


@plant(("queue_concurrency", "narrow-2"), ("queue_concurrency", "narrow-3"))
def queue_too_full(case: Case) -> None:
    case.set_limit("narrow", concurrency=1)


@plant(("tenant_running_max", "small-2"))
def tenant_too_full(case: Case) -> None:
    case.set_limit("small", running_max=1)


@plant(("key_concurrency", "keyed-2"))
def key_too_full(case: Case) -> None:
    case.set_limit("api:", concurrency=1)


@plant(("key_concurrency", "keyed-slow"))
def longest_prefix_allows_none(case: Case) -> None:
    case.set_limit("api:slow:", concurrency=0)


@plant(("key_concurrency", "common-2"))
def shared_key_too_full(case: Case) -> None:
    case.set_limit("common:", concurrency=1)


@plant(("paused_queue", "halted"))
def started_while_paused(case: Case) -> None:
    [at] = [at for at, event in enumerate(case.events) if event.type == "resumed"]
    case.put(at, type="paused")


@plant(("queue_rate", "slow-3"))
def queue_too_fast(case: Case) -> None:
    case.set_limit("slow", rate=[2, 1_001, 2])


@plant(("queue_rate", "slow-2"), ("queue_rate", "slow-3"))
def queue_without_a_burst(case: Case) -> None:
    case.set_limit("slow", rate=[1, 1_000, 1])


@plant(("tenant_rate", "rated-2"))
def tenant_too_fast(case: Case) -> None:
    case.set_limit("rated", rate=[1, 1_000, 1])


@plant(("key_rate", "sms-2"))
def key_too_fast(case: Case) -> None:
    case.set_limit("sms:", rate=[1, 1_000, 1])


@plant(("group_concurrency", "other"))
def two_of_a_group_run(case: Case) -> None:
    case.change("first", "enqueued", group="g9")
    case.change("other", "enqueued", group="g9")


@plant(("group_concurrency", "wide-2"))
def group_wider_than_it_may_be(case: Case) -> None:
    case.set_limit("wide", group_concurrency=1)


@plant(("group_order", "ahead"))
def started_before_its_turn(case: Case) -> None:
    case.change("ahead", "enqueued", group="g3")


@plant(("unique_key", "unique-too"))
def two_jobs_with_one_key(case: Case) -> None:
    case.change("unique-too", "enqueued", unique_hash=case.events[case.at("unique", "enqueued")].unique_hash)


# Dependencies.


@plant(("not_before_dependencies", "later"))
def started_before_its_dependency(case: Case) -> None:
    case.change("later", "enqueued", depends_on=(case.jobs["free"],))


@plant(("not_before_dependencies", "any"))
def any_success_without_a_success(case: Case) -> None:
    """The one that has completed becomes one that has not."""
    case.change("any", "enqueued", depends_on=(case.jobs["need-2"],))


@plant(("dependency_of_tenant", "later"))
def depends_on_another_tenants_job(case: Case) -> None:
    case.change("later", "enqueued", depends_on=(case.jobs["small-1"],))


@plant(("dependency_known", "later"))
def depends_on_nothing(case: Case) -> None:
    case.change("later", "enqueued", depends_on=(4_242,))


# Numbers.


@plant(("seq_given_once", "simple"))
def event_is_there_twice(case: Case) -> None:
    at = case.at("simple", "started")
    case.events.insert(at, case.events[at])


@plant(("seq_given_once", "cancelled"), ("seq_dense", "simple"))
def seq_is_given_to_two_events(case: Case) -> None:
    at = case.at("simple", "completed")
    case.put(at, seq=case.events[at + 1].seq)


@plant(("seq_dense", "simple"))
def notice_is_missing(case: Case) -> None:
    """A seq that no event of a job had."""
    joined = [at for at, event in enumerate(case.events) if event.type == "worker_joined" and event.worker == "w-1"]
    del case.events[joined[0]]


# What was answered, and what the store has.


@plant(("accepted_is_there", "424242"))
def answered_job_never_was(case: Case) -> None:
    case.ledger.append(424_242)


@plant(("not_lost", "alive"))
def live_job_is_lost(case: Case) -> None:
    del case.stored[case.jobs["alive"]]


@plant(("from_somewhere", "424242"))
def store_has_a_stranger(case: Case) -> None:
    case.stored[424_242] = "ready"


@plant(("same_state", "alive"))
def store_says_otherwise(case: Case) -> None:
    case.stored[case.jobs["alive"]] = "completed"
