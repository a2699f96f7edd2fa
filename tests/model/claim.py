"""Claim: tenant first, then queue, then job; waiting claims; tasks that a worker does not know.

The contract says exactly which job of a queue is next, and which queue when the claim is `strict`. Among tenants, and
among queues by weight, it promises shares, not choices. So a claim is checked along the engine's answer: `claim` is
given the ids that the engine leased, makes sure that each of them was an allowed choice at its moment, and leases the
same; `Fairness` watches the shares. Without an answer to follow, the model chooses for itself.
"""

from dataclasses import dataclass

from tenure.core.job import LEASE_DEFAULT_MS
from tenure.core.request import Claim
from tenure.core.state import CLAIM, READY, RUNNING, SETTLE_CANCEL
from tenure.core.tenant import Context
from tests.model.fairness import Fairness
from tests.model.limit import take_tokens
from tests.model.line import held_by, line_of
from tests.model.turn import refresh_turns, spend_turn
from tests.model.world import HOUR_MS, Job, Lease, World, sees


class Mismatch(AssertionError):
    """The engine did what the contract does not allow."""


@dataclass
class Choice:
    """A queue that may be served next, and its first job that the claim can take."""

    tenant: str
    queue: str
    job: Job


def claim(
    world: World, fairness: Fairness, context: Context, wish: Claim, token: bytes, answer: list[int] | None
) -> list[int]:
    """Lease jobs: those of `answer`, or, when it is None, the ones the model would choose."""
    taken: list[Job] = []
    note_asking(world, context, wish)
    world.last_lease += 1
    while len(taken) < wish.n:
        refresh_turns(world)
        choices = choices_of(world, context, wish)
        chosen = choose(wish, choices, taken, answer)
        if chosen is None:
            break
        set_aside_before(world, wish, chosen)
        fairness.lease(world, context, wish, choices, chosen)
        lease(world, context, wish, chosen.job, token)
        taken.append(chosen.job)
    set_aside_all(world, context, wish, sure=len(taken) < wish.n and fits(wish, taken, 0))
    return [job.id for job in taken]


def choices_of(world: World, context: Context, wish: Claim) -> list[Choice]:
    """What could be served next: per tenant, in the order of turns, each queue with its first claimable job."""
    choices: list[Choice] = []
    for tenant in world.turns:
        if not sees(context, tenant):
            continue
        for queue in queues_of(world, tenant, wish):
            job = first_of(world, wish, tenant, queue)
            if job is not None:
                choices.append(Choice(tenant, queue, job))
    return choices


def queues_of(world: World, tenant: str, wish: Claim) -> list[str]:
    """The tenant's queues with ready jobs that the claim names, in the order of its entries, prefixes by name."""
    names = sorted({job.queue for job in world.in_state(READY) if job.tenant == tenant})
    found: list[str] = []
    for pick in wish.queues:
        for name in names:
            if matches(pick.name, name) and name not in found:
                found.append(name)
    return found


def matches(pattern: str, queue: str) -> bool:
    return queue.startswith(pattern[:-1]) if pattern.endswith("*") else queue == pattern


def first_of(world: World, wish: Claim, tenant: str, queue: str) -> Job | None:
    for job in line_of(world, tenant, queue):
        if knows(wish, job) and not held_by(world, job):
            return job
    return None


def knows(wish: Claim, job: Job) -> bool:
    return wish.tasks is None or job.task in wish.tasks


def choose(wish: Claim, allowed: list[Choice], taken: list[Job], answer: list[int] | None) -> Choice | None:
    if wish.strict:
        allowed = [choice for choice in allowed if is_first_listed(wish, allowed, choice)]
    small = [choice for choice in allowed if fits(wish, taken, len(choice.job.payload))]
    if answer is None:
        return small[0] if small else None
    if len(taken) >= len(answer):
        if allowed and len(small) == len(allowed):
            raise Mismatch(f"{[choice.job.id for choice in allowed]} could be leased and were not")
        return None
    for choice in allowed:
        if choice.job.id == answer[len(taken)]:
            return choice
    raise Mismatch(f"leased {answer[len(taken) :]}, next may be {[choice.job.id for choice in allowed]}")


def is_first_listed(wish: Claim, allowed: list[Choice], choice: Choice) -> bool:
    place = entry_of(wish, choice.queue)
    return all(entry_of(wish, other.queue) >= place for other in allowed if other.tenant == choice.tenant)


def entry_of(wish: Claim, queue: str) -> int:
    return next(at for at, pick in enumerate(wish.queues) if matches(pick.name, queue))


def fits(wish: Claim, taken: list[Job], size: int) -> bool:
    return not taken or sum(len(job.payload) for job in taken) + size <= wish.max_bytes


def lease(world: World, context: Context, wish: Claim, job: Job, token: bytes) -> None:
    take_tokens(world, job)
    queue_ms = world.of_queue(job.tenant, job.queue, "lease_ms")
    assert isinstance(queue_ms, int)
    length_ms = wish.lease_ms or job.options.lease_ms or queue_ms or LEASE_DEFAULT_MS
    timeout_ms = job.options.timeout_ms
    job.lease = Lease(
        token,
        wish.worker,
        context.connection,
        context.principal,
        length_ms,
        world.served + length_ms,
        world.served + timeout_ms if timeout_ms else None,
        world.last_lease,
    )
    if job.last is not None and job.last.verb > SETTLE_CANCEL:
        job.was_lost = True
    job.tokens.append(token)
    job.last_connection, job.last_principal = context.connection, context.principal
    job.worker = wish.worker
    job.keeps_slot = False
    job.started_at = world.at
    job.attempt += 1
    job.delivery += 1
    world.move(job, CLAIM, RUNNING, "started")
    spend_turn(world, job.tenant)
    refresh_turns(world)


# Tasks that nobody knows.


def set_aside_before(world: World, wish: Claim, chosen: Choice) -> None:
    """Jobs of unknown tasks that stood before the chosen one were met, and are set aside."""
    for job in line_of(world, chosen.tenant, chosen.queue):
        if job is chosen.job:
            return
        if not knows(wish, job) and not held_by(world, job):
            set_aside(world, job, sure=True)


def set_aside_all(world: World, context: Context, wish: Claim, sure: bool) -> None:
    """A claim may have met any job that it could have had but for the task; one that got too few met them all."""
    for tenant in sorted({job.tenant for job in world.in_state(READY)}):
        if sees(context, tenant):
            for queue in queues_of(world, tenant, wish):
                for job in line_of(world, tenant, queue):
                    if not knows(wish, job):
                        set_aside(world, job, sure and not held_by(world, job))


def set_aside(world: World, job: Job, sure: bool) -> None:
    if job.aside_from is None:
        job.aside_from = world.elapsed
    if sure and job.aside_sure is None:
        job.aside_sure = world.elapsed


def note_asking(world: World, context: Context, wish: Claim) -> None:
    for job in world.in_state(READY):
        if sees(context, job.tenant) and knows(wish, job) and any(matches(p.name, job.queue) for p in wish.queues):
            job.asked_at = world.elapsed


def may_abandon(world: World, job: Job) -> bool:
    return job.state == READY and job.aside_from is not None and job.aside_from + HOUR_MS <= world.elapsed


def must_abandon(world: World, job: Job) -> bool:
    if job.state != READY or job.aside_sure is None:
        return False
    return max(job.aside_sure, job.asked_at) + HOUR_MS <= world.elapsed
