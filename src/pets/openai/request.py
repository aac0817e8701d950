"""The request that goes to an OpenAI-compatible server, with every sampling parameter written out."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Literal
from urllib.parse import urlsplit

from pets.errors import InputError
from pets.prompts import Prompt, Sampling

DialectName = Literal["openai", "vllm", "llama.cpp"]
# What a field must say so that leaving it out asks for the same; fields that say how a request is answered, not what is
# drawn, may have any value.
NEUTRAL_VALUES: Mapping[str, tuple[object, ...]] = {
    "temperature": (1.0,),
    "top_p": (1.0,),
    "top_k": (-1, 0),
    "min_p": (0.0,),
    "presence_penalty": (0.0,),
    "frequency_penalty": (0.0,),
}
FORM_FIELDS = ("n", "seed", "logprobs", "top_logprobs", "return_token_ids", "stream", "stream_options")


@dataclass(frozen=True, slots=True)
class Dialect:
    """What a kind of server understands beyond OpenAI's fields, and what must be said so that it draws plainly."""

    max_tokens: str = "max_tokens"  # its name of a chat's token limit
    top_k_off: int | None = None  # its word for "no top_k"; None: it knows neither top_k nor min_p
    fixed: Mapping[str, object] = field(default_factory=dict)
    token_ids: bool = False  # whether it may tell the tokens of each choice, where its usage tells their sum
    usage_of_one: bool = False  # whether its usage counts the tokens of one choice of several


DIALECTS: Mapping[DialectName, Dialect] = {
    "openai": Dialect("max_completion_tokens"),
    # Also SGLang, to which a top_k of 0 is an error. vLLM takes what is not said from the model's own files.
    "vllm": Dialect(top_k_off=-1, fixed={"repetition_penalty": 1.0}, token_ids=True),
    # It truncates by default; each of its samplers is switched off by name. post_sampling_probs would report the
    # distribution after truncation, not the model's.
    "llama.cpp": Dialect(
        top_k_off=0,
        fixed={
            "repeat_penalty": 1.0,
            "repeat_last_n": 0,
            "typical_p": 1.0,
            "top_n_sigma": -1.0,
            "xtc_probability": 0.0,
            "dry_multiplier": 0.0,
            "dynatemp_range": 0.0,
            "mirostat": 0,
            "min_keep": 0,
            "post_sampling_probs": False,
            "cache_prompt": True,
        },
        usage_of_one=True,
    ),
}


def dialect_of(url: str) -> DialectName:
    """OpenAI itself knows no field that switches truncation off; every other server gets them until it refuses one.

    >>> dialect_of("https://api.openai.com/v1"), dialect_of("http://localhost:8000/v1")
    ('openai', 'vllm')
    """
    host = urlsplit(url).hostname or ""
    return "openai" if host.endswith(("openai.com", "openai.azure.com")) else "vllm"


def path_of(prompt: Prompt) -> str:
    """Where the prompt goes, under the server's /v1."""
    return "/chat/completions" if prompt.is_chat else "/completions"


def body_of(model: str, prompt: Prompt, n: int, seed: int, sampling: Sampling, dialect: Dialect) -> dict[str, object]:
    """The request for ``n`` traces of a prompt, the first drawn with ``seed``.

    >>> body = body_of("m", Prompt("2 + 2 ="), 8, 5, Sampling(top_logprobs=20), DIALECTS["vllm"])
    >>> body["n"], body["seed"], body["top_k"], body["min_p"], body["logprobs"]
    (8, 5, -1, 0.0, 20)
    """
    if n < 1 or seed < 0:
        raise InputError(f"a request is for at least 1 trace and has a seed of at least 0; got n={n}, seed={seed}.")
    top, asked = sampling.top_logprobs, {"model": model, **(prompt.body or {}), "n": n, "seed": seed}
    if prompt.body is not None:  # a client's own, with its model where it names one
        own = prompt.body.get("top_logprobs")
        most = max(top or 0, own) if isinstance(own, int) else top  # as many as either side needs
        return asked | ({} if top is None else {"logprobs": True, "top_logprobs": most})
    body: dict[str, object] = {**asked, "temperature": sampling.temperature, "top_p": sampling.top_p}
    body |= {"presence_penalty": 0.0, "frequency_penalty": 0.0}
    if sampling.max_tokens is not None:
        body[dialect.max_tokens if prompt.is_chat else "max_tokens"] = sampling.max_tokens
    if sampling.reasoning_effort is not None:
        body["reasoning_effort"] = sampling.reasoning_effort
    if sampling.stop:
        body["stop"] = list(sampling.stop)
    if dialect.top_k_off is not None:
        body |= {"top_k": sampling.top_k or dialect.top_k_off, "min_p": sampling.min_p, **dialect.fixed}
    elif sampling.top_k or sampling.min_p:
        raise InputError("OpenAI's servers know no top_k and min_p: leave --top-k and --min-p out.")
    if dialect.token_ids and n > 1 and sampling.top_logprobs is None:  # log-probabilities are counted anyway
        body["return_token_ids"] = True
    if isinstance(prompt.content, str):
        body |= {"prompt": prompt.content} | ({} if top is None else {"logprobs": top})
    else:
        body["messages"] = list(map(asdict, prompt.content))
        body |= {} if top is None else {"logprobs": True, "top_logprobs": top}
    return body | dict(sampling.extra_body)


def optional_fields(body: Mapping[str, object], prompt: Prompt, sampling: Sampling, dialect: Dialect) -> set[str]:
    """The fields of a request that may be left out without changing what was asked.

    >>> sampling, vllm = Sampling(temperature=0.2), DIALECTS["vllm"]
    >>> body = body_of("m", Prompt("2 + 2 ="), 8, 5, sampling, vllm)
    >>> sorted(body.keys() - optional_fields(body, Prompt("2 + 2 ="), sampling, vllm))
    ['model', 'prompt', 'temperature']
    """
    own_fields = (prompt.body or {}).keys() | sampling.extra_body.keys()
    neutral = {name for name, values in NEUTRAL_VALUES.items() if body.get(name) in values}
    return (neutral | set(FORM_FIELDS) | dialect.fixed.keys()) & body.keys() - own_fields
