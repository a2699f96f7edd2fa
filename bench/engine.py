"""What the engine costs: throughput, memory, growth with the backlog, longest pause.

    python -m bench.engine [--quick] [--json]

One core, payloads of 64 bytes, default options, default retention. Beside each figure a reference from the same run:
`collections.deque` append and popleft of tuples, or `heapq`. Run it on the compiled build (`make bench` does).
"""

import gc
import heapq
import itertools
import os
import random
import resource
import statistics
import subprocess
import sys
import time
from collections import deque
from collections.abc import Callable

from bench.report import Report, arguments, median_of, seconds
from tenure.core import bound
from tenure.core.clock import Now
from tenure.core.job import Extras, Options
from tenure.core.request import KEY, REMOVE, Batch, Change, Claim, Configure, Filter, Pick, Settle
from tenure.core.state import SETTLE_COMPLETE
from tenure.core.tenant import Context
from tenure.engine import engine as engine_module
from tenure.engine.engine import Engine
from tenure.server.collector import Collector

SECRET = bytes(range(32))
PAYLOAD = b"x" * 64
FEW = 15  # jobs of a batch that are made at once: fewer than engine.run.BUNDLE_MIN
ME = Context()
EVERYONE = Context(tenants=("*",))
OPTIONS = Options()


class Machine:
    """An engine with a clock that moves a millisecond every ten calls."""

    def __init__(self) -> None:
        self.ms = 0
        self._calls = 0
        self.engine = Engine(SECRET, 1, self.now())

    def now(self) -> Now:
        self._calls += 1
        ms = self.ms + self._calls // 10
        return Now(1_800_000_000_000 + ms, 1_000_000 + ms)

    def enqueue(self, batch: Batch, context: Context = ME) -> None:
        self.engine.enqueue(context, batch, self.now())

    def cycle(self, batch: Batch, claim: Claim, context: Context = ME) -> None:
        """Enqueue a batch, claim as many, complete them."""
        engine = self.engine
        now = self.now()
        engine.enqueue(context, batch, now)
        found = engine.claim(context, claim, now)
        engine.settle(context, Settle(SETTLE_COMPLETE, found.ids, [found.token] * len(found.ids)), now)


def claim_of(n: int) -> Claim:
    return bound.make_claim(("default",), n, worker="bench")


# Throughput.


def deque_cycle(jobs: int) -> float:
    """Reference: jobs a second through a deque of tuples, in and out."""
    line: deque[tuple[int, bytes, int]] = deque()

    def run() -> None:
        for at in range(jobs):
            line.append((at, PAYLOAD, 0))
        for _ in range(jobs):
            line.popleft()

    return jobs / seconds(run)


def deque_in(jobs: int) -> float:
    line: deque[tuple[int, bytes, int]] = deque()

    def run() -> None:
        for at in range(jobs):
            line.append((at, PAYLOAD, 0))

    return jobs / seconds(run)


def deque_out(jobs: int) -> float:
    line: deque[tuple[int, bytes, int]] = deque((at, PAYLOAD, 0) for at in range(jobs))

    def run() -> None:
        for _ in range(jobs):
            line.popleft()

    return jobs / seconds(run)


def heap_cycle(jobs: int) -> float:
    """Reference: jobs a second through a heap of tuples with random priorities."""
    priorities = [random.Random(1).randrange(100) for _ in range(jobs)]
    line: list[tuple[int, int, bytes]] = []

    def run() -> None:
        for at in range(jobs):
            heapq.heappush(line, (priorities[at], at, PAYLOAD))
        for _ in range(jobs):
            heapq.heappop(line)

    return jobs / seconds(run)


def throughput(report: Report, quick: bool) -> None:
    for label, size, jobs in (("batch", 10_000, 200_000), ("hundred", 100, 100_000), ("single", 1, 50_000)):
        jobs = jobs // 2 if quick else jobs
        rounds = 3 if quick else 9
        parts: dict[str, list[float]] = {"enqueue": [], "claim": [], "settle": [], "cycle": []}
        machine = Machine()
        _round(machine, size, jobs, parts)
        for times in parts.values():
            times.clear()
        for _ in range(rounds):
            _round(machine, size, jobs, parts)
        references = {
            "enqueue": median_of(rounds, lambda: deque_in(200_000)),
            "claim": median_of(rounds, lambda: deque_out(200_000)),
            "settle": median_of(rounds, lambda: deque_out(200_000)),
            "cycle": median_of(rounds, lambda: deque_cycle(200_000)),
        }
        for part, times in parts.items():
            rate = jobs / statistics.median(times)
            report.add(
                f"engine.{part}.{label}", round(rate), "jobs/s", round(references[part]), rate / references[part]
            )


def _round(machine: Machine, size: int, jobs: int, parts: dict[str, list[float]]) -> None:
    """One pass over `jobs` jobs: all enqueues, then all claims, then all completions, each part timed as a whole."""
    engine = machine.engine
    batches = jobs // size
    payloads = [PAYLOAD] * size
    claim = claim_of(size)
    times = [machine.now() for _ in range(3 * batches)]
    began = time.perf_counter()
    for at in range(batches):
        engine.enqueue(ME, Batch(OPTIONS, payloads), times[at])
    enqueued = time.perf_counter()
    # Of each answer only what settling needs is kept, as a worker would.
    found = []
    for at in range(batches):
        answer = engine.claim(ME, claim, times[batches + at])
        found.append((answer.token, answer.ids))
    claimed = time.perf_counter()
    for at, (token, ids) in enumerate(found):
        engine.settle(ME, Settle(SETTLE_COMPLETE, ids, [token] * len(ids)), times[2 * batches + at])
    settled = time.perf_counter()
    assert all(len(ids) == size for _, ids in found)
    parts["enqueue"].append(enqueued - began)
    parts["claim"].append(claimed - enqueued)
    parts["settle"].append(settled - claimed)
    parts["cycle"].append(_steady(machine, size, min(jobs, 100_000)) * jobs)


def _steady(machine: Machine, size: int, jobs: int) -> float:
    """Seconds per job of enqueue + claim + complete, batch by batch."""
    batch = Batch(OPTIONS, [PAYLOAD] * size)
    claim = claim_of(size)
    times = [machine.now() for _ in range(jobs // size)]
    enqueue, lease, settle = machine.engine.enqueue, machine.engine.claim, machine.engine.settle

    def run() -> None:
        for now in times:
            enqueue(ME, batch, now)
            found = lease(ME, claim, now)
            settle(ME, Settle(SETTLE_COMPLETE, found.ids, [found.token] * size), now)

    return seconds(run) / jobs


# Memory.


def rss_bytes() -> int:
    with open("/proc/self/statm") as statm:
        return int(statm.read().split()[1]) * resource.getpagesize()


def memory_child() -> None:
    """In a process of its own: resident bytes per waiting job at 10^6, besides the payload objects."""
    machine = Machine()
    payloads = [[bytes([at % 251]) * 64 for at in range(10_000)] for _ in range(100)]
    machine.enqueue(Batch(OPTIONS, [PAYLOAD] * 10_000))
    gc.collect()
    before = rss_bytes()
    for chunk in payloads:
        machine.enqueue(Batch(OPTIONS, chunk))
    after = rss_bytes()
    print((after - before) / 1_000_000)


def memory_made_child() -> None:
    """The same of jobs that came a few at a time, or that somebody has looked at."""
    machine = Machine()
    payloads = [[bytes([at % 251]) * 64 for at in range(FEW)] for _ in range(1_000_000 // FEW)]
    for _ in range(10_000 // FEW):
        machine.enqueue(Batch(OPTIONS, [PAYLOAD] * FEW))
    gc.collect()
    before = rss_bytes()
    for few in payloads:
        machine.enqueue(Batch(OPTIONS, few))
    print((rss_bytes() - before) / 1_000_000)


def memory_reference_child() -> None:
    line: deque[tuple[int, bytes, int]] = deque()
    payloads = [bytes([at % 251]) * 64 for at in range(1_000_000)]
    before = rss_bytes()
    for at, payload in enumerate(payloads):
        line.append((at, payload, 0))
    print((rss_bytes() - before) / 1_000_000)


def in_child(name: str) -> float:
    command = [sys.executable, "-m", "bench.engine", "--child", name]
    return float(subprocess.run(command, check=True, capture_output=True, text=True, env=dict(os.environ)).stdout)


def memory(report: Report, quick: bool) -> None:
    rounds = 1 if quick else 3
    used = median_of(rounds, lambda: in_child("memory"))
    reference = median_of(rounds, lambda: in_child("memory_reference"))
    report.add("engine.memory.waiting", round(used, 1), "bytes/job", round(reference, 1), used / reference)
    made = median_of(rounds, lambda: in_child("memory_made"))
    report.add("engine.memory.made", round(made, 1), "bytes/job", round(reference, 1), made / reference)


# Growth.


def compare(rounds: int, small: Callable[[], object], large: Callable[[], object]) -> tuple[float, float]:
    """Median seconds of each, measured in turn, so that what else the machine does meets both alike."""
    smalls: list[float] = []
    larges: list[float] = []
    for _ in range(rounds):
        smalls.append(seconds(small))
        larges.append(seconds(large))
    return statistics.median(smalls), statistics.median(larges)


def fill(machine: Machine, jobs: int, batches: list[Batch]) -> None:
    turn = itertools.cycle(batches)
    for _ in range(jobs // 10_000):
        machine.enqueue(next(turn))
    if jobs < 10_000:
        machine.enqueue(Batch(batches[0].options, [PAYLOAD] * jobs))


def growth(report: Report, quick: bool) -> None:
    large = 1_000_000 if quick else 10_000_000
    rounds = 20 if quick else 100
    plain = Batch(OPTIONS, [PAYLOAD] * 1_000)
    fills = [Batch(OPTIONS, [PAYLOAD] * 10_000)]
    compare_growth(report, "engine.growth.fifo", large, rounds, plain, fills, 1 / deque_cycle(200_000))
    generator = random.Random(2)
    ranks = [Options(priority=priority) for priority in range(100)]
    mixed = Batch(OPTIONS, [PAYLOAD] * 1_000, each=[generator.choice(ranks) for _ in range(1_000)])
    ranked = [Batch(options, [PAYLOAD] * 10_000) for options in ranks]
    compare_growth(report, "engine.growth.priority", large, rounds, mixed, ranked, 1 / heap_cycle(200_000))
    parked(report, 100_000, rounds)
    tenants(report, 100_000, 20 if quick else 60)


def compare_growth(
    report: Report, name: str, large: int, rounds: int, batch: Batch, fills: list[Batch], reference: float
) -> None:
    claim = claim_of(len(batch.payloads))
    small_machine = Machine()
    fill(small_machine, 1_000, fills)
    machine = Machine()
    fill(machine, large, fills)
    compare(rounds // 4, lambda: small_machine.cycle(batch, claim), lambda: machine.cycle(batch, claim))
    small, cost = compare(rounds, lambda: small_machine.cycle(batch, claim), lambda: machine.cycle(batch, claim))
    jobs = len(batch.payloads)
    report.note(f"# {name}: {small / jobs * 1e9:.0f} ns a job at 10^3, {cost / jobs * 1e9:.0f} ns at {large:.0e}")
    report.add(name, round(cost / small, 3), "times", round(small / jobs / reference, 3), cost / small)


def parked(report: Report, count: int, rounds: int) -> None:
    """So many groups, and so many limited keys, each with a job running and one waiting for it."""
    batch = Batch(OPTIONS, [PAYLOAD] * 1_000)
    claim = claim_of(1_000)
    worst = 0.0
    for kind in ("groups", "keys"):
        machine = Machine()
        machine.engine.configure(ME, Configure(KEY, "key:", {"concurrency": 1}), machine.now())
        for first in range(0, count, 5_000):
            names = [f"key:{at // 2}" for at in range(2 * first, 2 * first + 10_000)]
            machine.enqueue(_held_batch(kind, names))
            for _ in range(11):  # a claim may pass over 1,000 held jobs
                machine.engine.claim(
                    ME, bound.make_claim(("default",), 10_000, worker="w", lease_ms=43_200_000), machine.now()
                )
        bare = Machine()
        small, cost = _compare_cycles(rounds, bare, machine, batch, claim)
        report.note(f"# engine.growth.parked, {kind}: {small * 1e6:.0f} ns a job without, {cost * 1e6:.0f} ns with")
        worst = max(worst, cost / small)
    report.add("engine.growth.parked", round(worst, 3), "times", 1.0, worst)


def _compare_cycles(rounds: int, bare: Machine, held: Machine, batch: Batch, claim: Claim) -> tuple[float, float]:
    compare(rounds // 4, lambda: bare.cycle(batch, claim), lambda: held.cycle(batch, claim))
    return compare(rounds, lambda: bare.cycle(batch, claim), lambda: held.cycle(batch, claim))


def _held_batch(kind: str, names: list[str]) -> Batch:
    payloads = [PAYLOAD] * len(names)
    if kind == "groups":
        extras: list[Extras | None] = [Extras(group=name) for name in names]
        return Batch(OPTIONS, payloads, extras)
    return Batch(OPTIONS, payloads, each=[Options(limit_keys=(name,)) for name in names])


def tenants(report: Report, count: int, rounds: int) -> None:
    """A claim over all tenants, each with waiting jobs; jobs come one by one, from one tenant after the other.

    With the server's collector policy: over so many tenants the default one is most of the cost.
    """
    collector = Collector()
    collector.start()
    one = Tenants(1)
    many = Tenants(count)
    for _ in range(count // 1_000):  # until each tenant had its turn
        one.cycle()
        many.cycle()
        collector.note(2_000)

    def small() -> None:
        one.cycle()
        collector.note(1_000)

    def large() -> None:
        many.cycle()
        collector.note(1_000)

    alone, cost = compare(rounds, small, large)
    collector.stop()
    report.note(f"# engine.growth.tenants: {alone * 1e6:.0f} ns a job with 1, {cost * 1e6:.0f} ns with {count}")
    report.add("engine.growth.tenants", round(cost / alone, 3), "times", 1.0, cost / alone)


class Tenants:
    """So many tenants, each with jobs waiting."""

    def __init__(self, count: int) -> None:
        self._machine = Machine()
        contexts = [Context(tenant=f"tenant-{at}") for at in range(count)]
        backlog = Batch(OPTIONS, [PAYLOAD] * (2 if count > 1 else 2_000))
        for context in contexts:
            self._machine.enqueue(backlog, context)
        self._turn = itertools.cycle(contexts)
        self._one = Batch(OPTIONS, [PAYLOAD])
        self._claim = claim_of(1_000)

    def cycle(self) -> None:
        machine = self._machine
        for _ in range(1_000):
            machine.enqueue(self._one, next(self._turn))
        found = machine.engine.claim(EVERYONE, self._claim, machine.now())
        assert len(found.ids) == 1_000
        machine.engine.settle(EVERYONE, Settle(SETTLE_COMPLETE, found.ids, [found.token] * 1_000), machine.now())


# Pauses.


class Stopwatch:
    """The longest single call, in milliseconds."""

    def __init__(self) -> None:
        self.longest_ms = 0.0

    def time(self, work: Callable[[], object]) -> object:
        began = time.perf_counter()
        answer = work()
        self.longest_ms = max(self.longest_ms, (time.perf_counter() - began) * 1000)
        return answer


def pause_steady(machine: Machine, watch: Stopwatch, collector: Collector | None, million: int) -> None:
    """A million waiting, and a steady load on top."""
    claim = claim_of(1_000)
    for at in range(million // 1_000 + 200):
        payloads = [bytes([byte % 251]) * 64 for byte in range(1_000)]
        batch = Batch(OPTIONS, payloads)
        watch.time(lambda batch=batch: machine.enqueue(batch))  # type: ignore[misc]
        if at >= million // 1_000:
            found = machine.engine.claim(ME, claim, machine.now())
            settle = Settle(SETTLE_COMPLETE, found.ids, [found.token] * len(found.ids))
            watch.time(lambda settle=settle: machine.engine.settle(ME, settle, machine.now()))  # type: ignore[misc]
        if collector is not None:
            watch.time(lambda: collector.note(1_000))


def tick_until_done(machine: Machine, watch: Stopwatch, now: Now) -> int:
    steps = 0
    while True:
        next_at = watch.time(lambda: machine.engine.tick(now))
        steps += 1
        if not isinstance(next_at, Now) or (next_at.wall_ms > now.wall_ms and next_at.elapsed_ms > now.elapsed_ms):
            return steps


def pause_timers(machine: Machine, watch: Stopwatch, million: int) -> None:
    """A million timers due in one millisecond."""
    due = Options(delay_ms=50_000_000)
    base = machine.now()
    for _ in range(million // 10_000):
        batch = Batch(due, [PAYLOAD] * 10_000)
        watch.time(lambda batch=batch: machine.engine.enqueue(ME, batch, base))  # type: ignore[misc]
    machine.ms += 60_000_000
    tick_until_done(machine, watch, machine.now())


def pause_dependents(machine: Machine, watch: Stopwatch, count: int) -> None:
    """A job that 10^5 others wait for completes."""
    machine.enqueue(Batch(Options(queue="root"), [PAYLOAD]))
    root = machine.engine.claim(ME, Claim((Pick("root"),)), machine.now())
    extras: list[Extras | None] = [Extras(depends_on=(root.ids[0],)) for _ in range(10_000)]
    for _ in range(count // 10_000):
        batch = Batch(OPTIONS, [PAYLOAD] * 10_000, extras)
        watch.time(lambda batch=batch: machine.enqueue(batch))  # type: ignore[misc]
    settle = Settle(SETTLE_COMPLETE, root.ids, [root.token])
    now = machine.now()
    watch.time(lambda: machine.engine.settle(ME, settle, now))
    tick_until_done(machine, watch, now)


def pause_empty(machine: Machine, watch: Stopwatch, million: int) -> None:
    """A queue of a million is emptied."""
    for _ in range(million // 10_000):
        machine.enqueue(Batch(Options(queue="full"), [PAYLOAD] * 10_000))
    change = Change(REMOVE, filter=Filter(queue="full"))
    now = machine.now()
    watch.time(lambda: machine.engine.change(ME, change, now))
    tick_until_done(machine, watch, now)
    assert machine.engine.count(ME, "full", machine.now()).get("full", {}).get("ready", 0) == 0


def pause_leases(machine: Machine, watch: Stopwatch, count: int) -> None:
    """10,000 leases, each of its own claim, run out together; then one claim of 10,000."""
    machine.enqueue(Batch(Options(queue="leased"), [PAYLOAD] * count))
    machine.enqueue(Batch(Options(queue="leased"), [PAYLOAD] * count))
    now = machine.now()
    for _ in range(count):
        machine.engine.claim(ME, Claim((Pick("leased"),)), now)
    machine.engine.claim(ME, Claim((Pick("leased"),), n=count), now)
    machine.ms += 31_000
    tick_until_done(machine, watch, machine.now())


def pauses(report: Report, quick: bool) -> None:
    million = 100_000 if quick else 1_000_000
    rounds = 1 if quick else 3
    for label, policy in (("engine.pause.max", True), ("engine.pause.default", False)):
        worst: dict[str, float] = {}
        for name in ("steady", "timers", "dependents", "empty", "leases"):
            found = [_pause_once(name, policy, million) for _ in range(rounds)]
            worst[name] = statistics.median(found)
        report.note(f"# {label}: " + ", ".join(f"{name} {ms:.1f} ms" for name, ms in worst.items()))
        longest = max(worst.values())
        reference = _collection_ms(million)
        report.add(label, round(longest, 2), "ms", round(reference, 2), longest / reference)


def _pause_once(name: str, policy: bool, million: int) -> float:
    collector = Collector() if policy else None
    if collector is not None:
        collector.start()
    machine = Machine()
    watch = Stopwatch()
    try:
        if name == "steady":
            pause_steady(machine, watch, collector, million)
        elif name == "timers":
            pause_timers(machine, watch, million)
        elif name == "dependents":
            pause_dependents(machine, watch, 100_000)
        elif name == "empty":
            pause_empty(machine, watch, million)
        else:
            pause_leases(machine, watch, 10_000)
    finally:
        if collector is not None:
            collector.stop()
    return watch.longest_ms


def _collection_ms(million: int) -> float:
    """Reference: one full collection over a list of so many small lists."""
    kept = [[at] for at in range(million)]
    found = seconds(gc.collect) * 1000
    del kept
    return found


CHILDREN = {"memory": memory_child, "memory_made": memory_made_child, "memory_reference": memory_reference_child}


def main() -> None:
    options = arguments(__doc__)
    if options.child:
        CHILDREN[options.child]()
        return
    report = Report(options.json)
    build = "compiled" if str(engine_module.__file__).endswith(".so") else "interpreted"
    report.note(f"# engine: {build} build, Python {sys.version.split()[0]}, {os.cpu_count()} cores")
    throughput(report, options.quick)
    memory(report, options.quick)
    growth(report, options.quick)
    pauses(report, options.quick)


if __name__ == "__main__":
    main()
