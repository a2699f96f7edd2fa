"""What the log of a lake says: entries, and the state that they add up to. Pure.

The files, all JSON lines: the value, then the SHA-256 of its line.

    _log/00000000000000000042.json              entry 42: what changed
    _log/00000000000000000040.checkpoint.json   the state after entry 40

To change the format: raise FORMAT, so that older readers refuse; read what the older one wrote. A field that older
readers may pass over can be added without raising it. The columns of segments have their own number, VERSION in
tenure/lake/schema.py, which every segment carries.
"""

from hashlib import sha256
from itertools import pairwise
from typing import Final, NamedTuple, TypeVar

import msgspec

FORMAT: Final = 1
FOLDER: Final = "_log"
DIGITS: Final = 20
GAPS_MAX: Final = 1_000  # the oldest are forgotten

EXPORT, COMPACT, RETAIN, SWEEP = "export", "compact", "retain", "sweep"

_T = TypeVar("_T")


class Segment(msgspec.Struct, frozen=True, kw_only=True):
    """A Parquet file with all events of `after < seq <= upto`. Numbers that the store skipped have none."""

    path: str
    after: int
    upto: int
    first_seq: int
    last_seq: int
    rows: int
    bytes: int
    sha256: str
    min_at: int  # milliseconds since 1970
    max_at: int
    schema: int

    @property
    def date(self) -> str:
        return self.path.partition("/")[0].partition("=")[2]


class Gap(msgspec.Struct, frozen=True, kw_only=True):
    """Events of `after < seq <= upto` were past the store's retention before they were exported."""

    after: int
    upto: int
    at: int


class Life(msgspec.Struct, frozen=True, kw_only=True):
    """From `after` on the events come from this life of the store; it has another one after a restore."""

    life: str
    after: int


class Dropped(msgspec.Struct, frozen=True, kw_only=True):
    """A file that is not part of the lake any more, and is kept a while for those who are reading it."""

    path: str
    at: int


class Entry(msgspec.Struct, frozen=True, kw_only=True):
    kind: str
    store: str
    life: str
    writer: str  # of one process, so that it knows its own entries again
    at: int
    after: int = 0  # what the lake had before, unless this is the first entry
    upto: int = 0  # what it has now
    added: tuple[Segment, ...] = ()
    dropped: tuple[str, ...] = ()  # segments that go
    deleted: tuple[str, ...] = ()  # files that are deleted: orphans, and what was dropped long enough ago
    gap: Gap | None = None
    format: int = FORMAT


class State(msgspec.Struct, frozen=True, kw_only=True):
    """What entries 1 to `number` add up to."""

    number: int = 0
    store: str = ""
    writer: str = ""  # of the last entry
    at: int = 0
    began: int = 0  # the lake has nothing at or before this
    upto: int = 0  # all that the store wrote up to this is in the lake, gaps aside
    segments: tuple[Segment, ...] = ()  # by seq
    dropped: tuple[Dropped, ...] = ()
    gaps: tuple[Gap, ...] = ()
    lives: tuple[Life, ...] = ()
    format: int = FORMAT

    @property
    def life(self) -> str:
        return self.lives[-1].life if self.lives else ""

    @property
    def rows(self) -> int:
        return sum(segment.rows for segment in self.segments)

    @property
    def bytes(self) -> int:
        return sum(segment.bytes for segment in self.segments)


class Name(NamedTuple):
    """Of a file of the log."""

    number: int
    is_checkpoint: bool

    def __str__(self) -> str:
        return f"{FOLDER}/{self.number:0{DIGITS}}{'.checkpoint' if self.is_checkpoint else ''}.json"


class Unreadable(Exception):
    """It is not what was written."""


def read_name(path: str) -> Name | None:
    """None for what is not of the log."""
    folder, _, file = path.rpartition("/")
    digits, _, rest = file.partition(".")
    if folder != FOLDER or len(digits) != DIGITS or not digits.isdecimal() or rest not in ("json", "checkpoint.json"):
        return None
    return Name(int(digits), rest != "json")


def encode(value: Entry | State) -> bytes:
    line = msgspec.json.encode(value)
    return line + b'\n{"sha256":"' + sha256(line).hexdigest().encode() + b'"}\n'


def decode(data: bytes, kind: type[_T]) -> _T:
    line, _, rest = data.partition(b"\n")
    if rest != b'{"sha256":"' + sha256(line).hexdigest().encode() + b'"}\n':
        raise Unreadable("its checksum does not agree")
    try:
        return msgspec.json.decode(line, type=kind)
    except msgspec.MsgspecError as error:
        raise Unreadable(str(error)) from error


def format_of(data: bytes) -> int:
    """So that a newer format is told as such, whatever else is in it."""
    try:
        found = msgspec.json.decode(data.partition(b"\n")[0])
    except msgspec.MsgspecError as error:
        raise Unreadable(str(error)) from error
    version = found.get("format") if isinstance(found, dict) else None
    if not isinstance(version, int):
        raise Unreadable("it has no format")
    return version


def fold(state: State, entry: Entry) -> State:
    """The state after one more entry. What cannot follow is refused: then somebody has meddled with the log."""
    gone = set(entry.dropped)
    kept = [segment for segment in state.segments if segment.path not in gone]
    if len(kept) + len(gone) != len(state.segments):
        raise Unreadable("it drops a segment that is not there")
    segments = sorted((*kept, *entry.added), key=lambda segment: segment.after)
    for left, right in pairwise(segments):
        if right.after < left.upto:
            raise Unreadable(f"{left.path} and {right.path} overlap")
    upto, began, gaps = state.upto, state.began, state.gaps
    if entry.kind == EXPORT:
        if state.number and entry.after != state.upto:
            raise Unreadable(f"it goes on from {entry.after}, the lake has {state.upto}")
        upto = entry.upto
        began = state.began if state.number else entry.after
    if entry.gap is not None:
        gaps = (*gaps, entry.gap)[-GAPS_MAX:]
    if entry.kind == RETAIN and segments:
        began = segments[0].after
        gaps = tuple(gap for gap in gaps if gap.upto > began)
    elif entry.kind == RETAIN:
        began, gaps = state.upto, ()
    lives = state.lives
    if entry.life != state.life:
        lives = (*lives, Life(life=entry.life, after=state.upto if state.number else began))
    deleted = set(entry.deleted)
    dropped = [*state.dropped, *(Dropped(path=path, at=entry.at) for path in entry.dropped)]
    return State(
        number=state.number + 1,
        store=entry.store,
        writer=entry.writer,
        at=entry.at,
        began=began,
        upto=upto,
        segments=tuple(segments),
        dropped=tuple(each for each in dropped if each.path not in deleted),
        gaps=gaps,
        lives=lives,
    )
