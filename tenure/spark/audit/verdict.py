"""What an audit says: for programs as JSON, for people as a page."""

from datetime import UTC, datetime
from typing import Final

import msgspec

EXAMPLES_MAX: Final = 20
SHOWN_MAX: Final = 5  # examples of each check in the text; the JSON has more


class Example(msgspec.Struct, frozen=True, omit_defaults=True):
    """One violation, with what its event says."""

    what: str
    job: int = 0
    job_seq: int = 0
    seq: int = 0
    at_ms: int = 0
    tenant: str = ""
    queue: str = ""
    task: str = ""
    type: str = ""
    worker: str = ""


class Checked(msgspec.Struct, frozen=True):
    invariant: str
    name: str
    sentence: str
    violations: int
    examples: tuple[Example, ...] = ()


class Verdict(msgspec.Struct, frozen=True):
    ok: bool
    events: int
    jobs: int
    first_seq: int
    last_seq: int
    is_whole: bool  # the history has its beginning, so that checks that need it were made
    skipped: int  # numbers that crashes left out
    crashes: int  # in how many places
    took_ms: int
    checks: tuple[Checked, ...] = ()

    @property
    def broken(self) -> tuple[Checked, ...]:
        return tuple(check for check in self.checks if check.violations)

    def to_json(self) -> str:
        return msgspec.json.encode(self).decode()

    def to_text(self) -> str:
        return "\n".join([*_headline(self), *_findings(self), *_ground(self)])


def _headline(verdict: Verdict) -> list[str]:
    if not verdict.events:
        return ["EMPTY: there are no events, so nothing was checked."]
    looked = f"{_count(verdict.events, 'event')} of {_count(verdict.jobs, 'job')}"
    if verdict.ok:
        return [f"SOUND: nothing is broken in {looked}."]
    broken = verdict.broken
    total = sum(check.violations for check in broken)
    return [f"BROKEN: {_count(total, 'violation')} of {_count(len(broken), 'promise')} in {looked}."]


def _findings(verdict: Verdict) -> list[str]:
    lines: list[str] = []
    for check in verdict.broken:
        lines += ["", f"{check.invariant} {check.name}: {_count(check.violations, 'violation')}"]
        lines += [f"  must hold: {check.sentence}"]
        lines += [f"  {_show(example)}" for example in check.examples[:SHOWN_MAX]]
        left = check.violations - min(len(check.examples), SHOWN_MAX)
        lines += [f"  and {left:,} more; --json names {len(check.examples)}"] if left > 0 else []
    return lines + (_advice(verdict) if verdict.broken else [])


def _advice(verdict: Verdict) -> list[str]:
    lines = ["", "Where to look:"]
    examples = [example for check in verdict.broken for example in check.examples]
    first = min((example for example in examples if example.seq), key=lambda example: example.seq, default=None)
    if first is not None:
        lines += [f"  the first of them is at seq {first.seq}{_time(first)}: what follows may follow from it"]
    job = next((example.job for example in examples if example.job), 0)
    if job:
        lines += [f"  tenure jobs show {job} has the job's record, if the store still has it"]
    lines += [f"  tenure spark audit --json lists up to {EXAMPLES_MAX} events of every check"]
    if any(check.invariant == "I8" for check in verdict.broken):
        lines += ["  rates go by the clock of the wall: while one that was set back stands still, they look too fast"]
    return lines


def _show(example: Example) -> str:
    where = [part for part in (example.tenant, example.queue, example.task) if part]
    named = f"job {example.job}" if example.job else "no job"
    place = f" ({'/'.join(where)})" if where else ""
    event = f", event {example.job_seq}" if example.job_seq else ""
    seq = f", seq {example.seq}" if example.seq else ""
    type = f", {example.type}" if example.type else ""
    worker = f" by {example.worker}" if example.worker else ""
    return f"{named}{place}{event}{seq}{type}{worker}{_time(example)}: {example.what}"


def _time(example: Example) -> str:
    if not example.at_ms:
        return ""
    at = datetime.fromtimestamp(example.at_ms / 1000, UTC)
    return f" at {at.strftime('%Y-%m-%d %H:%M:%S')}.{example.at_ms % 1000:03d} UTC"


def _ground(verdict: Verdict) -> list[str]:
    """What the verdict rests on."""
    seconds = verdict.took_ms / 1000
    lines = ["", f"{len(verdict.checks)} checks, seq {verdict.first_seq:,} to {verdict.last_seq:,}, {seconds:.1f} s."]
    if verdict.crashes:
        places = "place" if verdict.crashes == 1 else "places"
        lines += [f"{verdict.skipped:,} numbers were skipped in {verdict.crashes:,} {places}, as a crash does."]
    if not verdict.is_whole:
        lines += ["The history begins in the middle: what needs a job's beginning was checked where it is there."]
    return lines


def _count(number: int, what: str) -> str:
    return f"{number:,} {what}" if number == 1 else f"{number:,} {what}s"
