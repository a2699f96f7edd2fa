"""Tasks of an app, for executors to find."""

import tenure

app = tenure.App("memory://", name="tests")


@app.task(name="tests.double")
async def double(ctx: tenure.Context, number: int) -> list[int]:
    ctx.log(f"twice {number}")
    return [number * 2, ctx.job.id]


@app.batch(size=10, name="tests.double_all")
def double_all(numbers: list[int]) -> list[int | Exception]:
    return [2 * number if number > 0 else tenure.Permanent("not that") for number in numbers]
