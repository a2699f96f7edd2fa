# %% [markdown]
# # Embeddings on Spark
#
# A table of documents becomes jobs, the executors of Spark work them off in batches, and the vectors come back as a
# table. What fails is a dead letter with its reason, not a failed Spark job.
#
#     python examples/embeddings_on_spark.py [tenure://127.0.0.1:6789]
#
# Without an address it starts a server of its own. Nothing here needs a network: the model is a toy.

# %%
import math
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import sha256

import pandas as pd
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

import tenure
import tenure.spark

QUEUE = "embeddings"
TASK = "embed"
WIDTH = 64

# %% [markdown]
# ## The documents
#
# Each has a key of its own. One of them is empty, as one of them always is.

# %%
SUBJECTS = ("a lease", "a queue", "a worker", "a tenant", "a retry")
VERBS = ("waits for", "outlives", "follows", "replaces")
EMPTY = 13


def documents(spark: SparkSession, count: int = 200) -> DataFrame:
    rows = [
        (f"doc-{at}", f"{SUBJECTS[at % 5]} {VERBS[at % 4]} {SUBJECTS[at // 5 % 5]}" if at != EMPTY else "")
        for at in range(count)
    ]
    return spark.createDataFrame(rows, "document string, text string")


# %% [markdown]
# ## From rows to jobs
#
# The key of the row is the key of the job: who runs this again, or whom Spark runs again, adds nothing.


# %%
def enqueue(table: DataFrame, url: str) -> None:
    into = {"url": url, "queue": QUEUE, "task": TASK, "key": "document"}
    table.write.format("tenure").mode("append").options(**into).save()


# %% [markdown]
# ## The handler
#
# It gets the payloads of a claim as a table and gives a value per row. An exception in the place of a value fails that
# document alone. The model stands for one that costs as much for a hundred texts as for one.


# %%
def embed_text(text: str) -> list[float]:
    """Counts words by their hash; of length one."""
    counts = [0.0] * WIDTH
    for word in text.lower().split():
        counts[sha256(word.encode()).digest()[0] % WIDTH] += 1.0
    length = math.sqrt(sum(count * count for count in counts))
    return [round(count / length, 6) for count in counts]


def embed(table: pd.DataFrame) -> list[object]:
    return [
        {"document": document, "vector": embed_text(text)} if text else tenure.Permanent("an empty text has no meaning")
        for document, text in zip(table["document"], table["text"], strict=True)
    ]


# %% [markdown]
# ## The workers
#
# Every task of this Spark job is a worker. `tenure worker` could take from the same queue meanwhile. If an executor
# dies, its jobs are taken up when their leases are over, and each still has one result.


# %%
def work(spark: SparkSession, url: str) -> tenure.spark.Report:
    return tenure.spark.process(QUEUE, embed, url=url, spark=spark, batch=50, parallelism=2)


# %% [markdown]
# ## Results as a table
#
# They are read from the store and not from the tasks: what a task says twice would be there twice.


# %%
def read_table(spark: SparkSession, url: str, table: str) -> DataFrame:
    return spark.read.format("tenure").options(url=url, table=table).load().where(f.col("queue") == QUEUE)


def vectors(spark: SparkSession, url: str) -> DataFrame:
    parsed = f.from_json(f.col("result").cast("string"), "document string, vector array<double>")
    return read_table(spark, url, "results").select(parsed.alias("made")).select("made.*")


def nearest(table: DataFrame, text: str, count: int = 3) -> list[str]:
    """The documents whose vectors point where the text's does."""
    wanted = f.array(*(f.lit(value) for value in embed_text(text)))
    products = f.zip_with("vector", wanted, lambda one, other: one * other)
    likeness = f.aggregate(products, f.lit(0.0), lambda total, product: total + product)
    found = table.select("document", f.round(likeness, 6).alias("likeness"))
    return [row.document for row in found.orderBy(f.desc("likeness"), "document").take(count)]


# %% [markdown]
# ## The report


# %%
def report(spark: SparkSession, url: str, done: tenure.spark.Report) -> list[str]:
    dead = read_table(spark, url, "dead_letters").groupBy("error_type", "message").count().collect()
    return [
        f"{done.completed} vectors by {len(done.parts)} tasks, {done.failed} failed",
        *(f"dead letters: {row['count']} x {row['error_type']}: {row['message']}" for row in dead),
    ]


# %% [markdown]
# ## All of it


# %%
def main(spark: SparkSession, url: str) -> list[str]:
    table = documents(spark)
    enqueue(table, url)
    enqueue(table, url)  # again: nothing is added
    done = work(spark, url)
    found = vectors(spark, url).join(table, "document")
    lines = [f"{found.count()} of {table.count()} documents have a vector"]
    lines += report(spark, url, done)
    lines.append("nearest to 'a tenant outlives a retry': " + ", ".join(nearest(found, "a tenant outlives a retry")))
    return lines


@contextmanager
def server() -> Iterator[str]:
    """One of our own, on a port of the system's choice, gone at the end."""
    command = [sys.executable, "-m", "tenure", "serve", "--store", "memory://", "--tcp-port", "0", "--http-port", "0"]
    with tempfile.TemporaryDirectory() as folder:
        process = subprocess.Popen(
            [*command, "--no-grpc"], cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        try:
            assert process.stdout is not None
            for line in process.stdout:
                if "listening on" in line:
                    yield "tenure://" + line.split("listening on ")[1].split()[0]
                    return
            raise SystemExit("the server did not start")
        finally:
            process.terminate()
            process.communicate()


def session() -> SparkSession:
    return (
        SparkSession.builder.master("local[2]")
        .appName("embeddings")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.shuffle.partitions", "2")
        .getOrCreate()
    )


# %%
if __name__ == "__main__":
    if len(sys.argv) > 1:
        print("\n".join(main(session(), sys.argv[1])))
    else:
        with server() as url:
            print("\n".join(main(session(), url)))
