"""Requests, parsed and checked before anything is spent on them: chats, which may be voted on, and those of the paths
that only pass through.

A vote forwards the fields that say how to sample and in which form to answer. Where a key or a budget is to hold, any
other is refused: nobody knows what it would cost. One limit of tokens is sent, the one that was held. What else is in a
plain request is between client and server.
"""

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from pets.engine.question import cached_answer_type
from pets.errors import PetsError
from pets.gateway.settings import Limits, Settings
from pets.openai.errors import ApiError
from pets.openai.fields import chat_messages, flag, json_object, json_value, number, object_field, whole_number
from pets.patterns import Pattern
from pets.registry import answer_types

ANSWER_SPEC_CHARACTERS = 200
MAX_PROMPTS = 2048  # of one request, as OpenAI has it for embeddings
CHAT = "/chat/completions"
CHOICE_PATHS = (CHAT, "/completions")  # whose replies hold choices
TRACE_FIELDS = ("n", "seed", "stream", "stream_options")  # which a vote says anew for each of its traces
UNVOTABLE_FIELDS = ("functions", "audio", "modalities")
MAX_IGNORED = 32
MAX_HURRY = 4  # of one request: beyond, a race costs more than its time is worth
IGNORED_NAME = Pattern(r"[^\s,=:]{1,100}")  # of a field, with dots between those that lead to it
JSON_FIELDS = ("guided_json", "json_schema")  # of servers' own, beside response_format
# More choices than `n`, by the names of TGI, older vLLM, llama.cpp (n_cmpl), Hugging Face and Gemini (candidate_count);
# another price; another limit than the one that was held.
COSTLY_FIELDS = (
    "best_of", "candidate_count", "candidateCount", "n_cmpl", "num_beams", "num_completions", "num_generations",
    "num_outputs", "num_return_sequences", "num_samples", "use_beam_search", "prediction", "priority", "service_tier",
    "web_search_options", "max_output_tokens", "n_predict", "num_predict",
)  # fmt: skip
FORWARDED_FIELDS = frozenset({
    "messages", "user", "metadata", "safety_identifier", "prompt_cache_key",
    # Sampling.
    "temperature", "top_p", "top_k", "min_p", "typical_p", "presence_penalty", "frequency_penalty",
    "repetition_penalty", "repeat_penalty", "stop", "stop_token_ids", "min_tokens", "logit_bias", "bad_words",
    "logprobs", "top_logprobs", "skip_special_tokens", "include_stop_str_in_output",
    # The form of the answer.
    "response_format", "structured_outputs", "guided_json", "guided_regex", "guided_choice", "guided_grammar",
    "grammar", "json_schema", "tools", "tool_choice", "parallel_tool_calls",
    # How the model thinks.
    "reasoning_effort", "verbosity", "chat_template_kwargs", "include_reasoning", "separate_reasoning",
    "enable_thinking",
})  # fmt: skip
PLAIN_FIELDS = frozenset({"functions", "function_call"})  # of chats that are not voted on
TEXT_TYPES = frozenset({
    "message", "text", "input_text", "output_text", "function", "function_call", "function_call_output", "reasoning",
    "summary_text", "json_schema", "json_object", "object",
})  # fmt: skip
VOTE_OPTIONS = ("answer", "max_traces", "hurry", "weighted", "timeout", "ignore")


@dataclass(frozen=True, slots=True)
class RequestForm:
    """What counts in the requests of one path: the text, the names of a token limit, and what may be sent for money."""

    content: str
    token_limits: tuple[str, ...]
    fields: frozenset[str]


FORMS: Mapping[str, RequestForm] = {
    CHAT: RequestForm("messages", ("max_tokens", "max_completion_tokens"), FORWARDED_FIELDS | PLAIN_FIELDS | {"pets"}),
    "/completions": RequestForm("prompt", ("max_tokens",), FORWARDED_FIELDS | {"suffix", "echo"}),
    "/embeddings": RequestForm("input", (), frozenset({"encoding_format", "dimensions", "user", "truncate"})),
    "/responses": RequestForm(
        "input",
        ("max_output_tokens",),
        frozenset({
            "instructions", "temperature", "top_p", "reasoning", "text", "tools", "tool_choice", "parallel_tool_calls",
            "metadata", "user", "safety_identifier", "prompt_cache_key", "include", "store", "truncation",
            "top_logprobs",
        }),
    ),
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class VoteOptions:
    """How a question is voted on: at most ``max_traces`` within ``timeout`` seconds, in such a ``hurry``.

    With ``tools``, traces that call some vote on that; fields to ``ignore`` are left out of arguments and JSON.
    """

    answer: str
    max_traces: int
    timeout: float
    hurry: float | None = None
    weighted: bool = False
    tools: bool = False
    ignore: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ApiRequest:
    """One request to a path of :data:`FORMS`: ``fields`` is the body as it came, which asks for ``traces``.

    ``max_tokens`` is the smallest limit that the client wrote, under any name. ``options`` are a vote's.
    """

    path: str
    model: str
    fields: Mapping[str, Any]
    stream: bool
    include_usage: bool
    traces: int
    max_tokens: int | None
    options: VoteOptions | None = None

    def sent_fields(self, max_tokens: int | None) -> dict[str, Any]:
        """What goes upstream where tokens are paid for or voted on: ``max_tokens`` is the one limit in it.

        Each trace of a vote says its own n and seed; a plain stream of choices tells its usage.
        """
        names = FORMS[self.path].token_limits
        left_out = {"pets", *names, *(TRACE_FIELDS if self.options else ())}
        fields = {name: value for name, value in self.fields.items() if value is not None and name not in left_out}
        fields["model"] = self.model
        if max_tokens is not None and names:
            # Servers that know the newer name alone refuse the older one; those that know the older alone pass over
            # the newer one.
            fields[next((name for name in names if self.fields.get(name) is not None), names[0])] = max_tokens
        if self.stream and not self.options and self.path in CHOICE_PATHS:
            fields["stream_options"] = {**(self.fields.get("stream_options") or {}), "include_usage": True}
        return fields

    def check_cost(self, *, restricted: bool, priced: bool, allowed: Collection[str] = ()) -> None:
        """Refuse what no budget can hold: costly fields always, unknown ones where a key or a budget is to hold
        (``restricted``), parts that are no text and tools of the server where tokens are (``priced``)."""
        form, voted = FORMS[self.path], self.options is not None
        known = {"model", *TRACE_FIELDS, form.content, *form.token_limits, *form.fields}
        known -= PLAIN_FIELDS if voted else frozenset()
        for name, value in self.fields.items():
            is_known = value is None or name in allowed or name in known
            if not is_known and (restricted or name in COSTLY_FIELDS):
                whose = "A vote" if voted else "A plain request under a budget"
                message = f"{whose} takes no field {name[:40]!r}: what it costs is not known. Leave it out."
                raise _refusal(message, name, name[:40])
        if priced:
            self._check_chat(allowed) if self.path == CHAT else self._check_types(form.content, allowed)

    def _check_chat(self, allowed: Collection[str]) -> None:
        if not all(map(_is_text, self.fields["messages"])):
            message = "Images, sounds and files cannot be paid for in this gateway's unit; send texts alone."
            raise ApiError(message, param="messages")
        tools = self.fields.get("tools") or []
        for tool in tools if isinstance(tools, list) else [tools]:
            tool_type = str(tool.get("type", "function") if isinstance(tool, dict) else tool)
            if tool_type != "function" and tool_type not in allowed:
                message = f"A tool of the type {tool_type[:40]!r} cannot be paid for in this gateway's unit;"
                raise _refusal(f"{message} send functions alone.", tool_type, "tools")

    def _check_types(self, content: str, allowed: Collection[str]) -> None:
        """Refuse what has a "type", at whatever depth, that is no text's or function's."""
        stack: list[Any] = [self.fields]
        while stack:
            part = stack.pop()
            if isinstance(part, list):
                stack += part
            elif isinstance(part, Mapping):
                stack += [item for name, item in part.items() if name not in ("parameters", "schema", "metadata")]
                part_type = part.get("type")
                if isinstance(part_type, str) and part_type not in TEXT_TYPES and part_type not in allowed:
                    message = "Images, sounds, files and tools of the server cannot be paid for in this gateway's unit."
                    raise _refusal(f"{message} Send texts and functions alone.", part_type, content)

    @property
    def last_user_message(self) -> str:
        """The text of the user's last message; what is no text in it is named by its type, in brackets."""
        content = next((m.get("content") for m in reversed(self.fields["messages"]) if m.get("role") == "user"), "")
        parts = content if isinstance(content, list) else [{"type": "text", "text": content}]
        texts = [part.get("text", f"[{part.get('type')}]") for part in parts if isinstance(part, dict)]
        return "\n".join(text for text in texts if isinstance(text, str))


def parse_request(path: str, body: bytes, headers: Mapping[str, str], settings: Settings) -> ApiRequest:
    """Parse and check a request's body; a :class:`ApiError` names the field that is wrong."""
    fields, form, limits = json_object(body), FORMS[path], settings.limits
    model = fields.get("model")
    if not isinstance(model, str) or not model.removeprefix(settings.prefix) or len(model) > 256:
        raise ApiError("'model' is the name of a model, such as pets/NAME to vote.", param="model")
    voted = model.startswith(settings.prefix)
    if voted and path != CHAT:
        raise ApiError(f"{settings.prefix}NAME votes at /v1{CHAT}; here, ask for NAME.", param="model")
    prompts = _number_of_prompts(fields, form.content, limits)
    n = whole_number(fields, "n", 1, limits.n) or 1
    whole_number(fields, "seed", -(2**63), 2**64 - 1)
    token_limits = [whole_number(fields, name, 1, limits.max_tokens) for name in form.token_limits]
    return ApiRequest(
        path,
        model.removeprefix(settings.prefix),
        fields,
        flag(fields, "stream"),
        flag(object_field(fields, "stream_options"), "include_usage", "stream_options."),
        n * prompts if path in CHOICE_PATHS else 1,
        min((limit for limit in token_limits if limit is not None), default=None),
        _options(fields, headers, settings, n) if voted else None,
    )


def _number_of_prompts(fields: Mapping[str, Any], name: str, limits: Limits) -> int:
    """How many prompts a body has, each of which is answered: a chat is one."""
    content = chat_messages(fields, limits.messages)[:1] if name == "messages" else fields.get(name)
    if not isinstance(content, str | list) or not content:
        raise ApiError(f"{name!r} is a text, or a list.", param=name)
    prompts = len(content) if isinstance(content, list) and not isinstance(content[0], int) else 1
    if prompts > MAX_PROMPTS:
        raise ApiError(f"{name!r} is a list of at most {MAX_PROMPTS}.", param=name)
    return prompts


def _refusal(message: str, name: str, param: str) -> ApiError:
    """A refusal that the operator can lift."""
    return ApiError(f"{message} The operator may allow it: pets serve --allow-field {name[:40]}.", param=param)


def _is_text(message: Mapping[str, Any]) -> bool:
    """Whether a message is priced by its bytes."""
    content = message.get("content")
    if isinstance(content, list) and all(isinstance(part, dict) and part.get("type") == "text" for part in content):
        content = None
    return message.get("audio") is None and (content is None or isinstance(content, str))


def _options(fields: Mapping[str, Any], headers: Mapping[str, str], settings: Settings, n: int) -> VoteOptions:
    if n != 1:
        raise ApiError("A vote gives one answer: leave 'n' out; 'pets.max_traces' bounds the traces.", param="n")
    for name in UNVOTABLE_FIELDS:
        if fields.get(name):
            raise ApiError(f"A vote goes without {name!r}; ask the plain model for that.", param=name)
    requested = _requested_options(fields, headers)
    ignore = _ignored(requested.get("ignore"))
    run = settings.spec
    form, default = fields.get("response_format"), run.get("answer")
    form_type = form.get("type") if isinstance(form, dict) else None
    wants_json = form_type in ("json_object", "json_schema") or any(fields.get(name) for name in JSON_FIELDS)
    if wants_json and default.partition(":")[0] != "json":  # the client asks for it: it is read as that
        default = "json"
    spec = _answer_spec(requested.get("answer"), default)
    if ignore and spec.partition(":")[0] == "json" and "ignore=" not in spec:
        spec += f"{',' if ':' in spec else ':'}ignore={' '.join(ignore)}"
    most, timeout = run.get("max_traces"), requested.get("timeout")
    if timeout is not None and not (type(timeout) in (int, float) and math.isfinite(timeout) and timeout > 0):
        raise ApiError("'pets.timeout' is a number of seconds, more than 0.", param="pets.timeout")
    max_traces = whole_number(requested, "max_traces", 1, most, "pets.") or most
    return VoteOptions(
        spec,
        1 if fields.get("temperature") == 0 else max_traces,  # at temperature 0 all traces are one
        run.serving.timeout if timeout is None else min(float(timeout), run.serving.timeout),
        number(requested, "hurry", 0, MAX_HURRY, "pets."),
        flag(requested, "weighted", "pets."),
        bool(fields.get("tools")),
        ignore,
    )


def _ignored(names: object) -> tuple[str, ...]:
    """The fields that do not matter, of a list or with spaces between them."""
    listed = names.split() if isinstance(names, str) else [] if names is None else names
    if not isinstance(listed, list) or len(listed) > MAX_IGNORED:
        raise ApiError(f"'pets.ignore' is a list of at most {MAX_IGNORED} names of fields.", param="pets.ignore")
    if not all(isinstance(name, str) and IGNORED_NAME.fullmatch(name) for name in listed):
        message = "'pets.ignore' holds names of fields such as reason or result.note, without spaces."
        raise ApiError(message, param="pets.ignore")
    return tuple(listed)


def _requested_options(fields: Mapping[str, Any], headers: Mapping[str, str]) -> dict[str, Any]:
    """Options of the body's ``pets`` object, and of headers where the body has none."""
    options = dict(object_field(fields, "pets"))
    if unknown := [name for name in options if name not in VOTE_OPTIONS]:
        raise ApiError(f"There is no option {unknown[0][:40]!r}. Options: {', '.join(VOTE_OPTIONS)}.", param="pets")
    for name in VOTE_OPTIONS:
        header = f"x-pets-{name.replace('_', '-')}"
        if header in headers and options.get(name) is None:
            try:
                options[name] = headers[header] if name in ("answer", "ignore") else json_value(headers[header].lower())
            except (ValueError, RecursionError):
                raise ApiError(f"The header {header} cannot be read.", param=f"pets.{name}") from None
    client_timeout = headers.get("x-stainless-read-timeout")  # what OpenAI's clients say of their own patience
    if options.get("timeout") is None and client_timeout and client_timeout.replace(".", "", 1).isdecimal():
        options["timeout"] = float(client_timeout) or None
    return options


def _answer_spec(spec: object, default: str) -> str:
    """How answers are read: as the operator says, or as the client does within what clients may choose."""
    if not spec or spec == default:
        return default
    if not isinstance(spec, str) or len(spec) > ANSWER_SPEC_CHARACTERS:
        raise ApiError("'pets.answer' is an answer type, such as number or choice:options=4.", param="pets.answer")
    name, _, options = spec.partition(":")
    types = answer_types()
    if (cls := types.get(name)) is None:
        allowed = ", ".join(sorted(name for name, known in types.items() if not known.operator_only))
        raise ApiError(f"There is no answer type {name[:40]!r}. Types: {allowed}.", param="pets.answer")
    keys = [part.partition("=")[0] for part in options.split(",") if part]
    refused = [key for key in keys if key not in cls.client_options]
    if cls.operator_only or refused:
        what = f"The option {refused[0]!r} of the answer type" if refused else "The answer type"
        raise ApiError(f"{what} {name!r} is the operator's to choose, not a request's.", param="pets.answer")
    if not options and not cls.client_options and name == default.partition(":")[0]:
        return default  # with the operator's options
    try:
        cached_answer_type(spec)
    except PetsError as error:
        raise ApiError(str(error), param="pets.answer") from None
    return spec
