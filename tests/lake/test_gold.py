"""Gold is read with pyarrow alone: by dates, by columns, by tenant, from files of any version."""

import subprocess
import sys
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import pytest

from tenure.core.error import InvalidRequest
from tenure.lake.gold import TABLES, date_of, hour_of, hours_of, known_hours, last_days, read_gold
from tests.lake.gold import BEGIN, write


@pytest.fixture
def gold(tmp_path: Path) -> Path:
    """Three hours, two of them of the next date."""
    for hours in (0, 2, 3):
        at = BEGIN + timedelta(hours=hours)
        write(tmp_path, "minutes", at, {"tenant": "acme", "events": hours + 1}, {"tenant": "globex", "events": 1})
    return tmp_path


def test_a_table_is_read_by_dates_in_the_order_of_time(gold: Path) -> None:
    assert read_gold(gold, "minutes", columns=["events"])["events"].to_pylist() == [1, 1, 3, 1, 4, 1]
    last = read_gold(gold, "minutes", date(2026, 2, 1), columns=["at"])["at"].to_pylist()
    assert [at.hour for at in last] == [0, 0, 1, 1]
    assert read_gold(gold, "minutes", last=date(2026, 1, 31)).num_rows == 2
    assert read_gold(gold, "minutes", date(2026, 3, 1)).num_rows == 0


def test_one_tenant_is_not_shown_another(gold: Path) -> None:
    assert read_gold(gold, "minutes", columns=["events"], tenant="acme")["events"].to_pylist() == [1, 3, 4]
    assert read_gold(gold, "minutes", tenant="nobody").num_rows == 0


def test_a_table_that_is_not_there_is_empty_and_has_its_columns(tmp_path: Path) -> None:
    for table, schema in TABLES.items():
        assert read_gold(tmp_path / "nowhere", table).schema == schema


def test_a_column_that_a_file_does_not_have_yet_is_null(gold: Path) -> None:
    write(gold, "minutes", BEGIN + timedelta(hours=1), {"tenant": "acme"}, drop=("breaches", "wait_p99"))
    found = read_gold(gold, "minutes", last=date(2026, 1, 31), columns=["tenant", "breaches"])
    assert found["breaches"].to_pylist() == [0, 0, None]


def test_what_is_not_there_is_refused_with_the_nearest_name(tmp_path: Path) -> None:
    with pytest.raises(InvalidRequest, match="did you mean minutes"):
        read_gold(tmp_path, "minuts")
    with pytest.raises(InvalidRequest, match="did you mean wait_p99"):
        read_gold(tmp_path, "hours", columns=["wait_p9"])


def test_hours_are_numbers_and_files_have_their_place(gold: Path) -> None:
    assert known_hours(gold) == [hour_of(BEGIN) + more for more in (0, 2, 3)]
    assert date_of(hour_of(datetime(1969, 12, 31, 23, tzinfo=UTC))) == date(1969, 12, 31)
    assert [len(hours_of(date(2026, 3, 29))), date_of(hours_of(date(2026, 3, 29))[23])] == [24, date(2026, 3, 29)]
    assert last_days(gold, 1) == (date(2026, 2, 1), date(2026, 2, 1))
    assert last_days(gold, 30) == (date(2026, 1, 31), date(2026, 2, 1))


def test_reading_gold_does_not_import_spark() -> None:
    code = "import sys, tenure.lake.gold; sys.exit('pyspark' in sys.modules or 'matplotlib' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
