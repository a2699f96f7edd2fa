"""Slots of groups that jobs keep while they wait to be tried again, as far as that can be told from outside.

When exactly a slot of an attempt that timed out becomes the job's own again cannot be seen, so of some jobs it is only
known that they *may* keep one. Who surely keeps a slot must not be passed over. Who may is counted where it matters
whether there are too many. In doubt nobody is sure: that misses a finding, and makes none up.
"""

from tests.simulation.story import Scope, Story

Keepers = dict[int, Story]


class Slots:
    def __init__(self) -> None:
        self._sure: dict[Scope, Keepers] = {}
        self._maybe: dict[Scope, Keepers] = {}

    def sure(self, group: Scope) -> int:
        return len(self._sure.get(group, {}))

    def retry(self, group: Scope, story: Story, least: int, most: int, width: int) -> None:
        """An attempt is over, and the job is to be tried again in strict order. Others take at least, at most, so many
        slots besides those that are kept."""
        kept = self.sure(group) + 1
        if most + kept + len(self._maybe.get(group, {})) <= width:
            self._sure.setdefault(group, {})[story.id] = story
        elif least + kept <= width:
            self.doubt(group, story)

    def doubt(self, group: Scope, story: Story) -> None:
        self._maybe.setdefault(group, {})[story.id] = story

    def drop(self, group: Scope, story: Story) -> bool:
        """The job starts or ends; answers whether it may have kept a slot."""
        found = False
        for table in (self._sure, self._maybe):
            found |= table.get(group, {}).pop(story.id, None) is not None
            if group in table and not table[group]:
                del table[group]
        return found

    def groups(self, tenant: str, queue: str) -> list[Scope]:
        return [group for group in {**self._sure, **self._maybe} if group[1:3] == (tenant, queue)]

    def clear(self, group: Scope) -> None:
        """Its order is not strict any more: all give up their slots."""
        self._sure.pop(group, None)
        self._maybe.pop(group, None)

    def narrow(self, group: Scope, taken: int, width: int) -> None:
        """Too many slots are taken: who joined last gives its up first."""
        sure, maybe = self._sure.get(group, {}), self._maybe.get(group, {})
        over = max(0, taken + len(sure) + len(maybe) - width)
        is_certain = not maybe
        latest_first = sorted([*sure.values(), *maybe.values()], key=lambda story: -story.joined)
        for story in latest_first[:over]:
            self.drop(group, story)
            if not is_certain:
                self.doubt(group, story)
