"""Thumbnails of pictures, made in processes: decoding holds the interpreter, and a broken file may take it down.

python examples/thumbnails.py FOLDER
"""

import asyncio
import sys
from pathlib import Path

from PIL import Image, UnidentifiedImageError

import tenure

app = tenure.App("memory://", name="thumbnails")


@app.task(run="process", timeout="1m", max_attempts=2, permanent=(UnidentifiedImageError, FileNotFoundError))
def make_thumbnail(ctx: tenure.Context, picture: Path, side: int = 128) -> Path:
    """The file of the thumbnail. Made twice, it is the same: the second try writes over what the first one left."""
    target = picture.with_name(f"{picture.stem}.thumbnail.png")
    with Image.open(picture) as image:
        image.thumbnail((side, side))
        image.save(target)
    ctx.log(f"{picture.name}: {image.width} x {image.height}")
    return target


async def main(folder: Path) -> None:
    pictures = sorted(file for file in folder.iterdir() if ".thumbnail" not in file.suffixes)
    async with app.worker(concurrency=2, memory_bytes=512 * 1024 * 1024):
        jobs = [job async for job in app.enqueue_many(make_thumbnail.bind(picture) for picture in pictures)]
        for picture, job in zip(pictures, jobs, strict=True):
            try:
                print(f"{picture.name} -> {(await job.result()).name}")
            except tenure.JobFailed as error:
                print(f"{picture.name}: {error}")


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1])))
