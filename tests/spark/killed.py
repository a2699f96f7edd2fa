"""A task that is killed in the middle by one of its jobs: `python -m tests.spark.killed URL TENANT`."""

import os
import signal
import sys
import time

from tenure.spark.address import Address
from tenure.spark.partition import run_partition
from tenure.spark.workers import read_work
from tests.spark.workshop import QUEUE

KILLER = 2
TASK = os.getpid()


def handle(payloads: list[dict[str, int]]) -> list[int]:
    if any(payload["n"] == KILLER for payload in payloads):
        os.kill(TASK, signal.SIGKILL)
        time.sleep(60)  # the end of the task is this one's, too
    return [payload["n"] for payload in payloads]


if __name__ == "__main__":
    run_partition(read_work(QUEUE, handle, Address(*sys.argv[1:]), lease="1s", until="done"), 0)
