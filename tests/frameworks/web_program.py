"""A web application as users write them, with a worker in its process; served by uvicorn in a test."""

import asyncio
import os
from pathlib import Path
from typing import Annotated

from fastapi import Depends, FastAPI

from echomq import Job, Queue, Worker
from echomq.web import Queues

PREFIX = os.environ["PREFIX"]  # the server comes from ECHOMQ_URL
FOLDER = Path(os.environ["FOLDER"])


async def shout(job: Job) -> str:
    """Take a while over a job."""
    (FOLDER / "running").touch()
    await asyncio.sleep(job.data["s"])
    return str(job.data["word"]).upper()


queues = Queues(prefix=PREFIX, workers=[lambda connection: Worker("words", shout, connection, prefix=PREFIX)])
app = FastAPI(lifespan=queues.lifespan)


@app.post("/words")
async def add(word: str, s: float, words: Annotated[Queue, Depends(queues.queue("words"))]) -> str:
    """Add a job."""
    return (await words.add("shout", {"word": word, "s": s})).id
