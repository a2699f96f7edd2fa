"""The invariants of docs/semantics.md, section 21, each a function over a history seen from outside.

Each answers the breaches it finds, as texts. I17 is looked at when a run has ended; all others hold after every step.
"""

from collections.abc import Callable
from functools import partial
from typing import Final

from tenure.core import state
from tenure.core.dependency import ALL_DONE, ALL_SUCCESS
from tenure.core.limit import Rate
from tenure.core.record import Event, JobRecord
from tenure.core.request import Claim
from tenure.core.tenant import ANY_TENANT, Context
from tests.model.history import Granted, History

UNLIMITED: Final = 1 << 62
TERMINAL: Final = ("completed", "failed", "cancelled")
SPENT: Final = ("fail", "expire_lease", "time_out")
SAID: Final = ("complete", "fail", "refuse", "release", "snooze")

CLOCK_MS = 1_000  # by which the wall may be astray without having been set


def i1_every_job_is_in_exactly_one_state(history: History) -> list[str]:
    seen: dict[int, list[str]] = {}
    for name, ids in history.view.by_state.items():
        for id in ids:
            seen.setdefault(id, []).append(name)
    found = [f"job {id} was found in {names}" for id, names in seen.items() if len(names) != 1]
    for id, record in history.view.records.items():
        if seen.get(id) != [record.state]:
            found.append(f"job {id} is {record.state} and was found in {seen.get(id)}")
    return found + [f"job {id} was found and cannot be read" for id in seen if id not in history.view.records]


def i2_at_most_one_terminal_state_per_replay(history: History) -> list[str]:
    found: list[str] = []
    ended: dict[int, str] = {}
    for _, event in history.of_jobs():
        if event.type == "replayed":
            if ended.pop(event.job, "") != "failed":
                found.append(f"job {event.job} was replayed and had not failed")
        elif event.type in TERMINAL:
            if event.job in ended:
                found.append(f"job {event.job} ended twice: {ended[event.job]}, {event.type}")
            ended[event.job] = event.type
    return found


def i3_at_most_one_live_lease_per_job(history: History) -> list[str]:
    found: list[str] = []
    running: set[int] = set()
    for _, event in history.of_jobs():
        if event.type == "started":
            if event.job in running:
                found.append(f"job {event.job} was leased while it was leased")
            running.add(event.job)
        elif event.state != "running":
            running.discard(event.job)
    return found


def i4_what_settled_an_attempt_was_the_live_token(history: History) -> list[str]:
    found: list[str] = []
    tokens: dict[int, Granted] = {}
    for step, event in history.of_jobs():
        if event.type == "started":
            tokens[event.job] = grant_of(history, event.job, step)
        elif event.cause in SAID:
            if event.cause == "release" and step in history.withdrawals:
                continue
            said = [word.token for word in history.words if word.step == step and word.id == event.job]
            if tokens[event.job].token not in said:
                found.append(f"job {event.job}: {event.cause} without the live token")
            elif deadline_of(history, tokens[event.job], event.job, step) <= history.steps[step].served:
                found.append(f"job {event.job}: {event.cause} after the deadline")
    return found


def grant_of(history: History, id: int, step: int) -> Granted:
    """The claim that the job was leased to in this step; an answer that was drained later has a later step."""
    grants = [grant for grant in history.grants if id in grant.ids and grant.step >= step]
    return grants[0] if grants else Granted(step, b"", [], {})


def deadline_of(history: History, grant: Granted, id: int, step: int) -> int:
    deadline = grant.deadlines.get(id, 1 << 62)
    for at, extended, until in history.extensions:
        if extended == id and grant.step <= at < step:
            deadline = max(deadline, until)
    return deadline


def i5_attempts_are_exact(history: History) -> list[str]:
    found: list[str] = []
    for id, events in history.by_job().items():
        spent = 0
        most = events[0][1].max_attempts
        for _, event in events:
            if event.type == "replayed":
                spent = 0
            elif event.type == "started":
                if event.attempt != spent + 1 or (most is not None and event.attempt > most):
                    found.append(f"job {id}: attempt {event.attempt} after {spent} spent, of {most}")
            elif event.cause in SPENT:
                spent += 1
                found += is_last_word(event, spent, most)
    return found


def is_last_word(event: Event, spent: int, most: int | None) -> list[str]:
    is_last = most is not None and spent >= most
    if event.type == "retrying" and is_last:
        return [f"job {event.job} is tried again after {spent} of {most}"]
    if event.type == "failed" and event.reason not in ("permanent", "undecodable") and not is_last:
        return [f"job {event.job} is dead ({event.reason}) after {spent} of {most}"]
    return []


def i6_no_start_after_cancel(history: History) -> list[str]:
    found: list[str] = []
    cancelled: set[int] = set()
    for _, event in history.of_jobs():
        if event.type == "cancelled":
            cancelled.add(event.job)
        elif event.type == "started" and event.job in cancelled:
            found.append(f"job {event.job} was started after its cancel")
    return found


def i7_running_is_within_every_concurrency_limit(history: History) -> list[str]:
    found: list[str] = []
    running: dict[int, Event] = {}
    keys: dict[int, tuple[str, ...]] = {}
    for step, event in history.of_jobs():
        if event.type == "enqueued":
            keys[event.job] = event.limit_keys
        if event.type == "started":
            running[event.job] = event
            for scope, limit, busy in slots_of(history, event, step, running, keys):
                if busy > limit:
                    found.append(f"{busy} run in {scope}, which allows {limit}")
        elif event.state != "running":
            running.pop(event.job, None)
    return found


def slots_of(
    history: History, event: Event, step: int, running: dict[int, Event], keys: dict[int, tuple[str, ...]]
) -> list[tuple[str, int, int]]:
    """Per limit that the started job falls under: name, allowed, taken."""
    own = [other for other in running.values() if other.tenant == event.tenant]
    queue = [other for other in own if other.queue == event.queue]
    tenant_max = most_allowed(step, partial(history.values, "tenant", "", event.tenant), "running_max")
    queue_max = most_allowed(step, partial(history.values, "queue", event.tenant, event.queue))
    found = [(f"tenant {event.tenant}", tenant_max, len(own)), (f"queue {event.queue}", queue_max, len(queue))]
    for key in keys.get(event.job, ()):
        busy = [other for other in own if key in keys.get(other.job, ())]
        key_max = most_allowed(step, partial(history.key_values, event.tenant, key))
        found.append((f"key {key}", key_max, len(busy)))
    return found


def most_allowed(
    step: int, values: Callable[[int], dict[str, object]], name: str = "concurrency", default: int = UNLIMITED
) -> int:
    """The limit in a step; in the one that changes it, the larger of before and after."""
    limits = [values(at).get(name) for at in {step, max(step - 1, 0)}]
    return max(limit if isinstance(limit, int) else default for limit in limits)


def i8_claims_in_any_window_are_within_the_rate(history: History) -> list[str]:
    """A bucket that starts full and is never overdrawn says the same as every window at once; one that was lifted in
    between starts anew."""
    found: list[str] = []
    keys = {event.job: event.limit_keys for _, event in history.of_jobs() if event.type == "enqueued"}
    levels: dict[str, tuple[Rate, int, int, int]] = {}  # scope -> rate, level (in 1/period), elapsed, step
    for step, event in history.of_jobs():
        if event.type != "started":
            continue
        for scope, rate in rates_of(history, event, step, keys):
            now = history.steps[step].elapsed
            before = levels.get(scope)
            level = rate.burst * rate.period_ms
            goes_on = before is not None and all(
                scope in dict(rates_of(history, event, each, keys)) for each in range(before[3], step)
            )
            if before is not None and goes_on and before[0].key() == rate.key():
                level = min(level, before[1] + (now - before[2]) * rate.tokens)
            level -= rate.period_ms
            levels[scope] = (rate, level, now, step)
            if level < 0:
                found.append(f"{scope} is over its rate of {rate.key()} at {now}")
    return found


def rates_of(history: History, event: Event, step: int, keys: dict[int, tuple[str, ...]]) -> list[tuple[str, Rate]]:
    scopes: list[tuple[str, dict[str, object]]] = [
        (f"tenant {event.tenant}", history.values("tenant", "", event.tenant, step)),
        (f"queue {event.tenant}/{event.queue}", history.values("queue", event.tenant, event.queue, step)),
    ]
    for key in keys.get(event.job, ()):
        scopes.append((f"key {event.tenant}/{key}", history.key_values(event.tenant, key, step)))
    found: list[tuple[str, Rate]] = []
    for scope, values in scopes:
        rate = values.get("rate")
        if isinstance(rate, Rate):
            found.append((scope, rate))
    return found


def i9_groups_keep_their_width_and_order(history: History) -> list[str]:
    found: list[str] = []
    group_of: dict[int, tuple[str, str, str]] = {}
    states: dict[int, str] = {}
    joined: dict[int, int] = {}
    started: set[int] = set()
    for step, event in history.of_jobs():
        if event.type == "enqueued" and event.group:
            group_of[event.job] = (event.tenant, event.queue, event.group)
        group = group_of.get(event.job)
        if group is None:
            continue
        if event.type == "replayed":
            joined.pop(event.job, None)
            started.discard(event.job)
        states[event.job] = event.state
        if event.state == "ready":
            joined.setdefault(event.job, event.seq)
        if event.type == "started":
            same = [id for id, other in group_of.items() if other == group]
            found += group_breaches(history, event, step, same, states, joined, started)
            started.add(event.job)
    return found


def group_breaches(
    history: History,
    event: Event,
    step: int,
    same: list[int],
    states: dict[int, str],
    joined: dict[int, int],
    started: set[int],
) -> list[str]:
    found: list[str] = []
    running = sum(1 for id in same if states.get(id) == "running")
    values = partial(history.values, "queue", event.tenant, event.queue)
    width = most_allowed(step, values, "group_concurrency", 1)
    if running > width:
        found.append(f"{running} run in the group of job {event.job}")
    if event.job not in started:
        for id in same:
            is_before = joined.get(id, 1 << 62) < joined[event.job]
            if is_before and id not in started and states.get(id) == "ready":
                found.append(f"job {event.job} was started before {id}, which joined earlier")
    return found


def i10_one_live_job_per_unique_key(history: History) -> list[str]:
    found: list[str] = []
    keys: dict[int, tuple[str, str, str]] = {}
    holders: dict[tuple[str, str, str], int] = {}
    for _, event in history.of_jobs():
        if event.type == "enqueued" and event.unique_hash:
            keys[event.job] = (event.tenant, event.queue, event.unique_hash)
        key = keys.get(event.job)
        if key is None:
            continue
        if event.type in ("enqueued", "replayed"):
            if holders.get(key, event.job) != event.job:
                found.append(f"jobs {holders[key]} and {event.job} both hold {key}")
            holders[key] = event.job
        if (event.type in TERMINAL or event.type == "removed") and holders.get(key) == event.job:
            del holders[key]
    return found


def i11_no_start_before_run_at_or_dependencies(history: History) -> list[str]:
    found: list[str] = []
    run_at: dict[int, tuple[int, int]] = {}  # by the wall, and by elapsed time
    needs: dict[int, tuple[int, ...]] = {}
    endings: dict[int, set[str]] = {}
    for at, event in history.of_jobs():
        step = history.steps[at]
        if event.type == "enqueued":
            needs[event.job] = event.depends_on
        if event.state in ("scheduled", "retrying", "blocked") and event.run_at:
            run_at[event.job] = (event.run_at, step.elapsed + event.run_at - step.wall)
        wall, elapsed = run_at.get(event.job, (0, 0))
        if event.cause == "due" and event.at < wall and step.elapsed < elapsed - CLOCK_MS:
            found.append(f"job {event.job} became ready at {event.at}, before {wall}")
        if event.type == "started" and not are_met(history, event.job, needs.get(event.job, ()), endings):
            found.append(f"job {event.job} was started before {needs[event.job]}")
        if event.type in TERMINAL or event.type == "removed":
            endings.setdefault(event.job, set()).add(event.type)
    return found


def are_met(history: History, id: int, needs: tuple[int, ...], endings: dict[int, set[str]]) -> bool:
    """Whether the dependencies of a job have let it run. One that completed counts, whatever came later."""
    accepted = history.accepted.get(id)
    policy = accepted.options.dependency_policy if accepted is not None else ALL_DONE
    done = [need for need in needs if endings.get(need)]
    completed = [need for need in done if "completed" in endings[need]]
    if policy == ALL_SUCCESS:
        return len(completed) == len(needs)
    if policy == ALL_DONE or not needs:
        return len(done) == len(needs)
    return bool(completed)


def i12_events_form_a_path_and_are_dense(history: History) -> list[str]:
    found: list[str] = []
    states: dict[int, int] = {}
    seqs: dict[int, int] = {}
    for _, event in history.of_jobs():
        before = states.get(event.job, state.NEW)
        after = before if event.type == "progress" else code_of(event)
        if event.type == "progress":
            if before != state.RUNNING:
                found.append(f"job {event.job}: progress while {before}")
        elif not state.allows(state.CAUSE_NAMES.index(event.cause), before, after):
            found.append(f"job {event.job}: {event.cause} led from {before} to {after}")
        states[event.job] = after
        seqs[event.job] = seqs.get(event.job, 0) + 1
        if event.job_seq != seqs[event.job]:
            found.append(f"job {event.job}: job_seq {event.job_seq} is the {seqs[event.job]}. event")
    numbers = [event.seq for _, event in history.events]
    if numbers and numbers != list(range(numbers[0], numbers[0] + len(numbers))):
        found.append("seq is not dense")
    return found


def code_of(event: Event) -> int:
    return state.GONE if event.type == "removed" else state.STATE_NAMES.index(event.state)


def i13_counters_equal_what_they_count(history: History) -> list[str]:
    counted: dict[str, dict[str, dict[str, int]]] = {}
    for record in history.view.records.values():
        states = counted.setdefault(record.tenant, {}).setdefault(record.queue, {})
        states[record.state] = states.get(record.state, 0) + 1
    found: list[str] = []
    for tenant in {*counted, *history.view.counts}:
        answered = without_zeros(history.view.counts.get(tenant, {}))
        if answered != counted.get(tenant, {}):
            found.append(f"{tenant} has {counted.get(tenant, {})}, count says {answered}")
    return found


def without_zeros(counts: dict[str, dict[str, int]]) -> dict[str, dict[str, int]]:
    kept = {queue: {name: count for name, count in states.items() if count} for queue, states in counts.items()}
    return {queue: states for queue, states in kept.items() if states}


def i14_no_job_is_lost_and_none_appears(history: History) -> list[str]:
    enqueued = {event.job: step for step, event in history.of_jobs() if event.type == "enqueued"}
    removed = {event.job for _, event in history.of_jobs() if event.type == "removed"}
    records = history.view.records
    found = [f"job {id} was accepted and never enqueued" for id in history.accepted if id not in enqueued]
    found += [f"job {id} is lost" for id in enqueued if id not in records and id not in removed]
    found += [f"job {id} was removed and is there" for id in removed if id in records]
    found += [f"job {id} appeared from nowhere" for id in records if id not in enqueued]
    unnamed: dict[int, int] = {}
    for id, step in enqueued.items():
        if id not in history.accepted:
            unnamed[step] = unnamed.get(step, 0) + 1
    for step, count in unnamed.items():
        if count > history.unnamed.get(step, 0):
            found.append(f"step {step} made {count} jobs that nobody asked for")
    return found


def i15_tenants_do_not_see_each_other(history: History) -> list[str]:
    found: list[str] = []
    view = history.view
    for tenant in {*view.got_by, *view.found_by}:
        own = sorted(id for id, record in view.records.items() if record.tenant == tenant)
        for how, ids in (("gets", view.got_by.get(tenant, own)), ("finds", view.found_by.get(tenant, own))):
            if sorted(ids) != own:
                found.append(f"{tenant} {how} {sorted(ids)}, owns {own}")
    for tenant, events in view.events_by.items():
        found += [f"{tenant} reads event {event.seq} of {event.tenant}" for event in events if event.tenant != tenant]
    return found


def i16_a_claimable_job_does_not_wait_beside_a_waiting_claim(history: History) -> list[str]:
    keys = {event.job: event.limit_keys for _, event in history.of_jobs() if event.type == "enqueued"}
    found: list[str] = []
    for ticket, (context, claim) in history.waiting.items():
        for record in history.view.records.values():
            if record.state == "ready" and wants(context, claim, record) and is_free(history, record, keys):
                found.append(f"claim {ticket} waits beside job {record.id}")
    return found


def wants(context: Context, claim: Claim, record: JobRecord) -> bool:
    tenants = context.tenants or (context.tenant,)
    if ANY_TENANT not in tenants and record.tenant not in tenants:
        return False
    if claim.tasks is not None and record.task not in claim.tasks:
        return False
    return any(
        record.queue.startswith(pick.name[:-1]) if pick.name.endswith("*") else record.queue == pick.name
        for pick in claim.queues
    )


def is_free(history: History, record: JobRecord, keys: dict[int, tuple[str, ...]]) -> bool:
    """Whether nothing at all could hold the job back."""
    queue = history.values("queue", record.tenant, record.queue, history.step)
    tenant = history.values("tenant", "", record.tenant, history.step)
    limits = [queue.get("paused"), queue.get("rate"), queue.get("concurrency"), tenant.get("rate")]
    limits += [tenant.get("running_max"), keys.get(record.id), record.group]
    is_limited = any(limit not in (None, False, "", ()) for limit in limits)
    return not is_limited and not 0 < record.expires_at <= history.steps[-1].wall


def i17_everything_returns(history: History) -> list[str]:
    return [f"{count} {name} are left" for name, count in history.residue.items() if count]


def i18_no_id_or_token_is_given_twice(history: History) -> list[str]:
    found: list[str] = []
    ids: set[int] = set()
    deliveries: set[tuple[int, int]] = set()
    for _, event in history.of_jobs():
        if event.type == "enqueued":
            if event.job in ids:
                found.append(f"id {event.job} was given twice")
            ids.add(event.job)
        if event.type == "started":
            if (event.job, event.delivery) in deliveries:
                found.append(f"delivery {event.delivery} of job {event.job} was given twice")
            deliveries.add((event.job, event.delivery))
    tokens = [grant.token for grant in history.grants if grant.ids]
    return found + [f"token {token.hex()} was given twice" for token in set(tokens) if tokens.count(token) > 1]


INVARIANTS: Final[tuple[Callable[[History], list[str]], ...]] = (
    i1_every_job_is_in_exactly_one_state,
    i2_at_most_one_terminal_state_per_replay,
    i3_at_most_one_live_lease_per_job,
    i4_what_settled_an_attempt_was_the_live_token,
    i5_attempts_are_exact,
    i6_no_start_after_cancel,
    i7_running_is_within_every_concurrency_limit,
    i8_claims_in_any_window_are_within_the_rate,
    i9_groups_keep_their_width_and_order,
    i10_one_live_job_per_unique_key,
    i11_no_start_before_run_at_or_dependencies,
    i12_events_form_a_path_and_are_dense,
    i13_counters_equal_what_they_count,
    i14_no_job_is_lost_and_none_appears,
    i15_tenants_do_not_see_each_other,
    i16_a_claimable_job_does_not_wait_beside_a_waiting_claim,
    i17_everything_returns,
    i18_no_id_or_token_is_given_twice,
)


def breaches(history: History) -> list[str]:
    """All that is wrong, each with the name of its invariant."""
    return [f"{check.__name__}: {text}" for check in INVARIANTS for text in check(history)]
