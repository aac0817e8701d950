"""Replies in OpenAI's JSON forms, whole and as server-sent events."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import accumulate

from pets.mock.asking import Ask
from pets.mock.logprobs import chat_content, completion_form, completion_logprobs
from pets.mock.speech import Spoken
from pets.mock.thoughts import delta_of, message_of

__all__ = ["DONE", "ERROR", "Reply", "whole_body"]

DONE = "data: [DONE]\n\n"
ERROR = (
    '{"error":{"message":"Internal server error (on purpose).","type":"InternalServerError","param":null,"code":500}}'
)


@dataclass(frozen=True, slots=True)
class Reply:
    """What goes back for one request: choices in order of their index."""

    id: str
    model: str
    created: int
    ask: Ask
    choices: tuple[Spoken, ...]
    prompt_tokens: int
    top: int | None
    extra: bool = False
    usage_of_one: bool = False
    apart: bool = False

    def usage(self) -> str:
        """The ``usage`` object, as JSON."""
        counted = self.choices[:1] if self.usage_of_one else self.choices
        completion = sum(choice.tokens for choice in counted)
        return (
            f'{{"prompt_tokens":{self.prompt_tokens},"completion_tokens":{completion},'
            f'"total_tokens":{self.prompt_tokens + completion}}}'
        )

    def steps(self) -> Iterator[str]:
        """The events of a stream: one string a step, in which every choice that still speaks says one token."""
        tail = ',"usage":null}\n\n' if self.ask.include_usage else "}\n\n"
        speakers = [self._events(index, choice, tail) for index, choice in enumerate(self.choices)]
        while speakers:
            said = [(speaker, event) for speaker in speakers if (event := next(speaker, None)) is not None]
            speakers = [speaker for speaker, _ in said]
            if said:
                yield "".join(event for _, event in said)

    def last(self) -> str:
        """What ends a stream after its steps."""
        return (
            f'data: {self._head()},"choices":[],"usage":{self.usage()}}}\n\n{DONE}' if self.ask.include_usage else DONE
        )

    def _head(self) -> str:
        kind = "chat.completion.chunk" if self.ask.chat else "text_completion"
        return f'{{"id":"{self.id}","object":"{kind}","created":{self.created},"model":{json.dumps(self.model)}'

    def _events(self, index: int, choice: Spoken, tail: str) -> Iterator[str]:
        """One choice, an event a token; the role comes with the first token, the finish with the last."""
        start = f'data: {self._head()},"choices":[{{"index":{index},'
        end = f'"finish_reason":"{choice.finish}"}}]{tail}'
        going = f'"finish_reason":null}}]{tail}'
        key, close = ('"delta":{"content":', "}") if self.ask.chat else ('"text":', "")
        before = f'{start}"delta":{{"role":"assistant","content":""}},"logprobs":null,{going}' if self.ask.chat else ""
        pieces = choice.pieces()
        thinks = choice.text.startswith("<think>")
        for at, (piece, logprobs) in enumerate(zip(pieces, self._logprobs(choice, pieces), strict=True)):
            said = f'"delta":{{{delta_of(piece, thinks)}}}' if self.apart else f"{key}{json.dumps(piece)}{close}"
            ids = f'"token_ids":[{at}],' if self.ask.token_ids else ""
            yield f'{before}{start}{said},{ids}"logprobs":{logprobs},{going}'
            before = ""
        empty = '"delta":{}' if self.ask.chat else '"text":""'
        yield f'{before}{start}{empty},"logprobs":null,{end}'

    def _logprobs(self, choice: Spoken, pieces: list[str]) -> Iterator[str]:
        """The ``logprobs`` object of each token's event."""
        if self.top is None:
            yield from ("null" for _ in pieces)
        elif self.ask.chat:
            for content in chat_content(choice.said, pieces, self.top, self.extra):
                yield f'{{"content":[{content}]}}'
        else:
            entries = completion_logprobs(choice.said, pieces, self.top, self.extra)
            for piece, entry, offset in zip(pieces, entries, accumulate(map(len, pieces), initial=0), strict=False):
                yield completion_form([piece], [entry], offset)


def whole_body(reply: Reply) -> bytes:
    """The reply as one JSON object."""
    kind = "chat.completion" if reply.ask.chat else "text_completion"
    choices = ",".join(_choice(reply, index, choice) for index, choice in enumerate(reply.choices))
    return (
        f'{{"id":"{reply.id}","object":"{kind}","created":{reply.created},"model":{json.dumps(reply.model)},'
        f'"choices":[{choices}],"usage":{reply.usage()}}}'
    ).encode()


def _choice(reply: Reply, index: int, choice: Spoken) -> str:
    text, logprobs = json.dumps(choice.text), "null"
    content = message_of(choice.text) if reply.apart else f'"content":{text}'
    said = f'"message":{{"role":"assistant",{content}}}' if reply.ask.chat else f'"text":{text}'
    if reply.ask.token_ids:
        said += f',"token_ids":[{",".join(map(str, range(choice.tokens)))}]'
    if reply.top is not None:
        pieces = choice.pieces()
        if reply.ask.chat:
            entries = ",".join(chat_content(choice.said, pieces, reply.top, reply.extra))
            logprobs = f'{{"content":[{entries}]}}'
        else:
            tops = completion_logprobs(choice.said, pieces, reply.top, reply.extra)
            logprobs = completion_form(pieces, tops)
    return f'{{"index":{index},{said},"logprobs":{logprobs},"finish_reason":"{choice.finish}"}}'
