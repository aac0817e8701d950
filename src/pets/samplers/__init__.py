"""Where traces come from: one file a kind of model."""

from pets.samplers.base import Completion, Message, Prompt, Sampler, Sampling
from pets.samplers.seeds import Seeds

__all__ = ["Completion", "Message", "Prompt", "Sampler", "Sampling", "Seeds"]
