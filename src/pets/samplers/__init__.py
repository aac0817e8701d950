"""Where traces come from: one file per kind of model."""

from pets.openai.headers import RateLimits
from pets.prompts import Completion, Message, Prompt, Sampling, Written
from pets.samplers.base import Sampler, Seeds

__all__ = ["Completion", "Message", "Prompt", "RateLimits", "Sampler", "Sampling", "Seeds", "Written"]
