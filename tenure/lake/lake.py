"""A lake to read: which files belong to it, and what they hold.

lake = Lake.open("s3://bucket/events")
spark.read.parquet(*lake.files())
"""

from typing import Self

from tenure.lake.entry import Gap, Segment, State
from tenure.lake.log import Log
from tenure.lake.place import Place, open_place


class Lake:
    """What the lake was when it was opened, or reloaded: a snapshot. Its files stay for the lake's grace time."""

    def __init__(self, place: Place) -> None:
        self.place = place
        self.log = Log(place)
        self.state = State()

    @classmethod
    def open(cls, url: str) -> Self:
        """A path, file:///path or s3://bucket/prefix."""
        lake = cls(open_place(url))
        lake.reload()
        return lake

    def reload(self) -> None:
        self.state = self.log.load()

    def segments(self, first_date: str = "", last_date: str = "") -> list[Segment]:
        """By seq; of these UTC dates (YYYY-MM-DD), both included, if they are given."""
        return [
            segment
            for segment in self.state.segments
            if first_date <= segment.date and (not last_date or segment.date <= last_date)
        ]

    def files(self, first_date: str = "", last_date: str = "", scheme: str = "") -> list[str]:
        """Paths, or s3:// addresses, of those segments; `scheme="s3a"` for a Spark with Hadoop's S3 client."""
        found = [self.place.address(segment.path) for segment in self.segments(first_date, last_date)]
        return [f"{scheme}{name[2:]}" if scheme and name.startswith("s3://") else name for name in found]

    def gaps(self) -> list[Gap]:
        """What retention took from the store before it was exported."""
        return list(self.state.gaps)
