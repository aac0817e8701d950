"""A Python function as a sampler: the text of a prompt in, the text of a trace out."""

import asyncio
import inspect
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor

from pets.errors import InputError
from pets.prompts import Completion, Prompt, Sampling
from pets.samplers.base import Sampler

THREADS = 64  # as many as traces are in flight, where nobody says otherwise: most functions wait for a server
SamplerFunction = Callable[[str], str | Awaitable[str]]


class FunctionSampler(Sampler):
    """Asks ``function`` once for every trace; it is called with the prompt's text and gives the trace's.

    The messages of a chat come as one text, with a blank line between them. Calls overlap: those of a plain function
    run in threads, those of an ``async def`` in the event loop. Seeds and ``sampling`` are the function's own
    business. What it raises ends the run, but for a ``SamplerError``: a ``BusyError`` has it asked again.

    >>> sampler = FunctionSampler(lambda question: f"The answer is {len(question)}.")
    >>> traces = asyncio.run(sampler.sample(Prompt.chat("How long is this?"), n=2, seed=0, sampling=Sampling()))
    >>> [trace.text for trace in traces]
    ['The answer is 17.', 'The answer is 17.']
    """

    def __init__(self, function: SamplerFunction) -> None:
        self._function = function
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="pets-sampler")

    async def sample(self, prompt: Prompt, n: int, seed: int, sampling: Sampling) -> list[Completion]:
        content = prompt.content
        text = content if isinstance(content, str) else "\n\n".join(message.content for message in content)
        return list(await asyncio.gather(*(self._trace(text) for _ in range(n))))

    async def _trace(self, text: str) -> Completion:
        if inspect.iscoroutinefunction(self._function):
            reply = await self._function(text)
        else:
            reply = await asyncio.get_running_loop().run_in_executor(self._threads, self._function, text)
            reply = await reply if inspect.isawaitable(reply) else reply
        if not isinstance(reply, str):
            raise InputError(f"the sampler's function gave {reply!r}; expected the text of a trace.")
        return Completion(reply, "stop", None)

    async def close(self) -> None:
        """As :meth:`Sampler.close`; calls that are under way end by themselves."""
        self._threads.shutdown(wait=False)
