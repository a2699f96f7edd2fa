"""Embeddings of texts: each text is a job of its own, and the model gets them in batches.

python examples/embeddings.py
"""

import asyncio
import hashlib

import tenure

app = tenure.App("memory://", name="embeddings")

WIDTH = 4


class Model:
    """Stands for a model that costs as much for a hundred texts as for one."""

    def __init__(self) -> None:
        self.calls: list[int] = []

    def embed(self, texts: list[str]) -> list[list[float]]:
        self.calls.append(len(texts))
        return [[byte / 255 for byte in hashlib.sha256(text.encode()).digest()[:WIDTH]] for text in texts]


model = Model()


@app.batch(size=32, wait="100ms", queue="embed", max_attempts=3)
def embed(texts: list[str]) -> list[list[float] | Exception]:
    """A value per text. An exception in the place of a value fails that text alone, not its neighbours."""
    good = [text for text in texts if text]
    vectors = iter(model.embed(good))
    return [next(vectors) if text else tenure.Permanent("an empty text has no meaning") for text in texts]


async def main() -> None:
    texts = [f"text number {number}" for number in range(100)]
    async with app.worker():
        jobs = [job async for job in app.enqueue_many(embed.bind(text) for text in texts)]
        vectors = [await job.result(timeout="10s") for job in jobs]
    print(f"{len(vectors)} vectors in {len(model.calls)} calls of the model")


if __name__ == "__main__":
    asyncio.run(main())
