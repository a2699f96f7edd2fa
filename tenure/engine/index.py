"""Finding a job by its id, and remembering how removed ones ended.

Ids are dense and rising, so the index is pages of 1,024 slots, dropped when empty; a page left with a few survivors
shrinks to a small dict. No structure grows by rehashing millions of entries, so no insert stalls. Jobs of a bundle have
their slots, and are made when they are asked for.
"""

from array import array
from typing import Final

from librt.strings import BytesWriter
from mypy_extensions import i64, u8

from tenure.engine.bundle import Bundle
from tenure.engine.job import NO_JOB, NO_SPEC, Job

PAGE: Final = 1024
PAGE_BITS: Final = 10
PAGE_MASK: Final = 1023
SPARSE: Final = 64

IN_BUNDLE: Final = Job(0, NO_SPEC, b"", 0, 0, 0)  # in the slot of a job that is not made yet


class Page:
    def __init__(self) -> None:
        self.slots: list[Job] | None = [NO_JOB] * PAGE
        self.few: dict[int, Job] | None = None
        self.live: i64 = 0
        self.bundles: list[Bundle] | None = None  # of which some jobs may not be made yet


class Index:
    def __init__(self) -> None:
        self._pages: dict[int, Page] = {}
        # The last page that was asked for or added to, and the last that was removed from: old jobs go while new ones
        # come.
        self._last: Page | None = None
        self._last_number: i64 = -1
        self._going: Page | None = None
        self._going_number: i64 = -1
        self._newest: i64 = -1
        self.size: i64 = 0
        self.bundled: i64 = 0  # of them, those that are not made yet

    def _page(self, number: i64) -> Page | None:
        if number == self._last_number:
            return self._last
        page = self._pages.get(number)
        if page is not None:
            self._last = page
            self._last_number = number
        return page

    def get(self, id: i64) -> Job | None:
        page = self._page(id >> PAGE_BITS)
        if page is None:
            return None
        slots = page.slots
        if slots is None:
            assert page.few is not None
            return page.few.get(id)
        job = slots[id & PAGE_MASK]
        if job is IN_BUNDLE:
            return self._make(page, slots, id)
        return None if job is NO_JOB else job

    def _make(self, page: Page, slots: list[Job], id: i64) -> Job:
        bundle = _bundle_of(page, id)
        job = bundle.job(id)
        slots[id & PAGE_MASK] = job
        self.bundled -= 1
        bundle.left -= 1
        if bundle.left == 0:
            self._forget(bundle)
        return job

    def _forget(self, bundle: Bundle) -> None:
        bundle.rest()
        """All of its jobs are made. It may be of two pages, one of which may be gone."""
        number: i64 = bundle.first >> PAGE_BITS
        while number <= bundle.last() >> PAGE_BITS:
            page = self._pages.get(number)
            if page is not None and page.bundles is not None:
                page.bundles.remove(bundle)
                if not page.bundles:
                    page.bundles = None
            number += 1

    def peek(self, id: i64) -> Job | None:
        """As `get`, to be read only: a job that is not made yet stays so, and what is answered is a copy."""
        page = self._pages.get(id >> PAGE_BITS)
        if page is not None and page.slots is not None and page.slots[id & PAGE_MASK] is IN_BUNDLE:
            return _bundle_of(page, id).job(id)
        return self.get(id)

    def peek_all(self, first: i64, last: i64) -> list[Job]:
        """Those with ids from first to last, in their order, to be read only."""
        found: list[Job] = []
        for number in self._numbers_from(first // PAGE, last // PAGE, self.size):
            low: i64 = i64(number) << PAGE_BITS
            id: i64 = max(first, low)
            while id <= last and id < low + PAGE:
                job = self.peek(id)
                if job is not None:
                    found.append(job)
                id += 1
        return found

    def add_bundle(self, bundle: Bundle) -> None:
        """Jobs with the newest ids."""
        id: i64 = bundle.first
        last: i64 = bundle.last()
        self.size += bundle.count
        self.bundled += bundle.count
        while id <= last:
            page = self._open(id >> PAGE_BITS)
            slots = page.slots
            assert slots is not None, "jobs come behind all others, where no page is sparse"
            low: i64 = id & PAGE_MASK
            count: i64 = min(last - id + 1, PAGE - low)
            slots[low : low + count] = [IN_BUNDLE] * int(count)
            page.live += count
            if page.bundles is None:
                page.bundles = []
            page.bundles.append(bundle)
            id += count

    def check_bundles(self) -> list[str]:
        """What does not agree between bundles, slots and counts."""
        left: dict[Bundle, int] = {}
        slots = 0
        for page in self._pages.values():
            for bundle in page.bundles or []:
                left[bundle] = int(bundle.left)
            if page.slots is not None:
                slots += sum(1 for job in page.slots if job is IN_BUNDLE)
        total = sum(left.values())
        if slots == self.bundled and slots == total:
            return []
        return [f"index counts {int(self.bundled)} jobs that are not made, bundles {total}, slots {slots}"]

    def _open(self, number: i64) -> Page:
        page = self._page(number)
        if page is None:
            page = Page()
            self._pages[number] = page
            self._last = page
            self._last_number = number
            if number > self._newest:
                self._newest = number
        return page

    def add(self, job: Job) -> None:
        page = self._open(job.id >> PAGE_BITS)
        slots = page.slots
        if slots is None:
            assert page.few is not None
            page.few[job.id] = job
        else:
            slots[job.id & PAGE_MASK] = job
        page.live += 1
        self.size += 1

    def remove(self, id: i64) -> None:
        number: i64 = id >> PAGE_BITS
        page = self._going
        if page is None or number != self._going_number:
            page = self._pages.get(number)
            assert page is not None, "the job is not in the index"
            self._going = page
            self._going_number = number
        slots = page.slots
        if slots is None:
            assert page.few is not None
            del page.few[id]
        else:
            slots[id & PAGE_MASK] = NO_JOB
        page.live -= 1
        self.size -= 1
        if page.live == 0:
            del self._pages[number]
            self._going = None
            if number == self._last_number:
                self._last = None
                self._last_number = -1
        elif slots is not None and page.live <= SPARSE and number < self._newest:
            self._shrink(page, slots, number)

    def _shrink(self, page: Page, slots: list[Job], number: i64) -> None:
        few: dict[int, Job] = {}
        id: i64 = number << PAGE_BITS
        for job in slots:
            if job is IN_BUNDLE:
                job = self._make(page, slots, id)
            if job is not NO_JOB:
                few[job.id] = job
            id += 1
        page.few = few
        page.slots = None

    def scan(self, after: i64, limit: i64, upto: i64) -> list[Job]:
        """At most `limit` jobs with after < id <= upto, in the order of their ids."""
        found: list[Job] = []
        first: i64 = (after + 1) // PAGE
        numbers = self._numbers_from(first, upto // PAGE, limit)
        for number in numbers:
            page = self._pages[number]
            slots = page.slots
            if slots is None:
                assert page.few is not None
                for id in sorted(page.few):
                    if after < id <= upto:
                        found.append(page.few[id])
                        if len(found) >= limit:
                            return found
                continue
            first_id: i64 = i64(number) << PAGE_BITS
            at: i64 = max(after + 1 - first_id, 0)
            end: i64 = min(upto - first_id + 1, PAGE)
            while at < end:
                job = slots[at]
                if job is IN_BUNDLE:
                    job = self._make(page, slots, first_id + at)
                if job is not NO_JOB:
                    found.append(job)
                    if len(found) >= limit:
                        return found
                at += 1
        return found

    def _numbers_from(self, first: i64, last: i64, limit: i64) -> list[int]:
        span: i64 = last - first + 1
        pages: i64 = len(self._pages)
        if span <= 2 * min(limit, pages) + 16:
            return [number for number in range(int(first), int(last) + 1) if number in self._pages]
        return sorted(number for number in self._pages if first <= number <= last)


def _bundle_of(page: Page, id: i64) -> Bundle:
    """They stand in the order of their ids."""
    bundles = page.bundles
    assert bundles is not None
    low: i64 = 0
    high: i64 = len(bundles) - 1
    while low < high:
        middle = (low + high + 1) // 2
        if bundles[middle].first <= id:
            low = middle
        else:
            high = middle - 1
    assert bundles[low].has(id), "the job is in no bundle of its page"
    return bundles[low]


class OutcomePage:
    def __init__(self, number: i64) -> None:
        self.number: i64 = number
        self.codes = BytesWriter()  # per id state + 1, 0 for none; a writer, because its bytes are cheap to set
        self.codes.write(bytes(PAGE))
        self.tenant: i64 = -1
        self.tenants: array[int] | None = None  # where the page has jobs of several tenants
        self.count: i64 = 0
        self.last_at: i64 = 0


class Outcomes:
    """The terminal states of removed jobs, a byte each, kept for `keep_ms` and at most for the last `jobs_max`."""

    def __init__(self, keep_ms: i64, jobs_max: i64) -> None:
        self._keep_ms: i64 = keep_ms
        self._pages_max: i64 = max(jobs_max // PAGE, 1)
        self._pages: dict[int, OutcomePage] = {}
        self._last: OutcomePage | None = None

    def add(self, id: i64, state: i64, tenant: i64, now_ms: i64) -> None:
        number: i64 = id // PAGE
        page = self._last
        if page is None or page.number != number:
            page = self._pages.get(number)
            if page is None:
                page = self._open(number, tenant)
            self._last = page
        slot: i64 = id % PAGE
        page.codes[slot] = u8(state + 1)
        page.last_at = now_ms
        if tenant != page.tenant and page.tenants is None:
            page.tenants = array("q", [int(page.tenant)]) * PAGE
        if page.tenants is not None:
            page.tenants[slot] = tenant

    def _open(self, number: i64, tenant: i64) -> OutcomePage:
        page = OutcomePage(number)
        page.tenant = tenant
        self._pages[number] = page
        if len(self._pages) > self._pages_max:
            del self._pages[next(iter(self._pages))]
        return page

    def get(self, id: i64, tenant: i64) -> i64:
        """The state the job ended in, or -1 when it is not known to this tenant."""
        page = self._pages.get(id // PAGE)
        if page is None:
            return -1
        slot: i64 = id % PAGE
        code = i64(page.codes[slot])
        if code == 0:
            return -1
        owner: i64 = page.tenant if page.tenants is None else page.tenants[slot]
        return code - 1 if owner == tenant else -1

    def page(self, number: i64) -> tuple[int, bytes, list[int]]:
        """When it last changed, the codes and the owners of a page's ids; no codes when there is none."""
        page = self._pages.get(number)
        if page is None:
            return 0, b"", []
        owners = [int(page.tenant)] if page.tenants is None else list(page.tenants)
        return int(page.last_at), page.codes.getvalue(), owners

    def trim(self, now_ms: i64) -> i64:
        """Drop what is past its time; answers when to come again, 0 when nothing is kept."""
        old: list[int] = []
        next_at: i64 = 0
        for number, page in self._pages.items():
            due = page.last_at + self._keep_ms
            if due <= now_ms:
                old.append(number)
            elif next_at == 0 or due < next_at:
                next_at = due
            if len(old) >= 1000:
                next_at = now_ms + 1
                break
        for number in old:
            del self._pages[number]
        self._last = None
        return next_at

    def __len__(self) -> int:
        return len(self._pages)
