r"""Thoughts apart from the answer, as a server with a reasoning parser sends them: ``reasoning`` beside ``content``."""

import json

__all__ = ["delta_of", "message_of"]

OPEN, CLOSE = "<think>", " </think>"


def message_of(text: str) -> str:
    """The members of a whole message; a trace that never closed its thoughts has no content.

    >>> message_of("<think> so we look </think> The answer is 7.")
    '"reasoning":" so we look","content":" The answer is 7."'
    >>> message_of("<think> so we")
    '"reasoning":" so we","content":null'
    """
    if not text.startswith(OPEN):
        return f'"reasoning":null,"content":{json.dumps(text)}'
    thoughts, closed, content = text.removeprefix(OPEN).partition(CLOSE)
    return f'"reasoning":{json.dumps(thoughts)},"content":{json.dumps(content) if closed else "null"}'


def delta_of(piece: str, thinks: bool) -> str:
    """The members of one token's delta, of a trace that begins with thoughts or not; the marks themselves say nothing.

    >>> delta_of(" so", True), delta_of(" </think> The answer is 7.", True), delta_of("<think>", True)
    ('"reasoning":" so"', '"content":" The answer is 7."', '')
    """
    if piece == OPEN:
        return ""
    _, closed, content = piece.partition(CLOSE)
    if closed or not thinks:
        return f'"content":{json.dumps(content if closed else piece)}'
    return f'"reasoning":{json.dumps(piece)}'
