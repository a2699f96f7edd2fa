"""The log of a lake: numbered entries, each put there only if nobody else has put one of that number.

Whoever commits has read the state that the entries up to then add up to. If another was faster the name is taken, the
commit is refused, and nothing of it counts: its files are orphans. So there is one order of commits, every one made in
full knowledge of those before it, whoever crashes or hangs whenever.

Every so often the state is written down as a checkpoint, and older files of the log are deleted. A writer that was
asleep meanwhile might then find its number free again. It looks after writing whether a checkpoint has passed it by;
readers never look at entries behind a checkpoint.
"""

import logging
from collections.abc import Iterable
from typing import TypeVar

from tenure.core.error import Unavailable
from tenure.lake.entry import (
    FOLDER,
    FORMAT,
    Entry,
    Name,
    Segment,
    State,
    Unreadable,
    decode,
    encode,
    fold,
    format_of,
    read_name,
)
from tenure.lake.error import LakeDamaged, LakeTooNew
from tenure.lake.place import Missing, Place
from tenure.lake.schema import VERSION

CHECKPOINT_ENTRIES = 25
CHECKPOINTS_KEPT = 2
TRIES = 5

log = logging.getLogger("tenure.lake")

_Line = TypeVar("_Line", Entry, State)


class Moved(Exception):
    """Another has committed since the state was read. Nothing was done: read it again."""


class Log:
    def __init__(self, place: Place, checkpoint_entries: int = CHECKPOINT_ENTRIES) -> None:
        self._place = place
        self._checkpoint_entries = checkpoint_entries
        self._checkpoint = 0  # the newest that is known of

    def load(self) -> State:
        """The state as it is now. Files that others delete meanwhile are no trouble: there is a newer checkpoint."""
        problem = ""
        for _ in range(TRIES):
            try:
                return self._load()
            except Missing as error:
                problem = error.message
        raise LakeDamaged(
            f"the log of {self._place.title} has a hole: {problem}; restore the file, or begin a new lake"
        )

    def _load(self) -> State:
        names = self._names()
        start = max((name.number for name in names if name.is_checkpoint), default=0)
        state = self._read(Name(start, True), State) if start else State()
        self._check_schema(state.segments)
        self._checkpoint = start
        numbers = sorted(name.number for name in names if not name.is_checkpoint and name.number > start)
        for expected, number in enumerate(numbers, start + 1):
            if number != expected:
                raise Missing(f"it has no {Name(expected, False)}")
            name = Name(number, False)
            entry = self._read(name, Entry)
            self._check_schema(entry.added)
            try:
                state = fold(state, entry)
            except Unreadable as error:
                raise self._damaged(name, error) from error
        return state

    def _names(self) -> list[Name]:
        return [name for path in self._place.names(FOLDER) if (name := read_name(path)) is not None]

    def _read(self, name: Name, kind: type[_Line]) -> _Line:
        data = self._place.get(str(name))
        try:
            found = format_of(data)
            if found > FORMAT:
                raise LakeTooNew(self._place.title, "format", found, FORMAT)
            return decode(data, kind)
        except Unreadable as error:
            raise self._damaged(name, error) from error

    def _check_schema(self, segments: tuple[Segment, ...]) -> None:
        newest = max((segment.schema for segment in segments), default=0)
        if newest > VERSION:
            raise LakeTooNew(self._place.title, "schema", newest, VERSION)

    def _damaged(self, name: Name, error: Unreadable) -> LakeDamaged:
        return LakeDamaged(
            f"{name} in {self._place.title} cannot be read: {error}; restore the file, or begin a new lake"
        )

    def commit(self, state: State, entry: Entry) -> State:
        """Add the entry to what the state says; `Moved` when somebody else was faster."""
        number = state.number + 1
        name = str(Name(number, False))
        data = encode(entry)
        after = fold(state, entry)  # first: what cannot be read again is not written
        if not self._place.create(name, data) and not self._is_own(name, data):
            raise Moved
        names = self._names()
        if any(each.is_checkpoint and each.number >= number for each in names):
            raise Moved
        if number - self._checkpoint >= self._checkpoint_entries:
            self._write_checkpoint(after, names)
        return after

    def _is_own(self, name: str, data: bytes) -> bool:
        """A request that was answered with an error may have been carried out, and was made again."""
        try:
            return self._place.get(name) == data
        except Missing:
            return False

    def check_place(self, state: State) -> None:
        """A server that does not know conditional writes overwrites and says nothing: then nothing here would hold.

        It is asked to create the last entry once more, with what is in it already.
        """
        name = str(Name(state.number, False))
        try:
            data = self._place.get(name)
        except Missing:
            return  # others were at work meanwhile, and have their place checked
        if self._place.create(name, data):
            raise Unavailable(
                f"{self._place.title} does not keep conditional writes (If-None-Match), so two exporters could"
                " overwrite each other; use a bucket that does, or a folder"
            )

    def _write_checkpoint(self, state: State, names: Iterable[Name]) -> None:
        """The commit is done, so trouble here is no trouble of it: the next one tries again."""
        try:
            self._place.put(str(Name(state.number, True)), encode(state))
            self._checkpoint = state.number
            kept = sorted((name.number for name in names if name.is_checkpoint), reverse=True)[: CHECKPOINTS_KEPT - 1]
            oldest = min(kept, default=0)
            old = [name for name in names if name.number < oldest or (name.number == oldest and not name.is_checkpoint)]
            self._place.delete([str(name) for name in old])
        except Unavailable as error:
            log.warning("the log of %s was not shortened: %s", self._place.title, error)
