"""What is sent for a question: its prompt, and a seed for every trace."""

from pets.engine.plan import Plan
from pets.questions import Problem
from pets.samplers import Message, Prompt, Seeds

__all__ = ["prompt_of", "seeds_for"]


def prompt_of(problem: Problem, system: str | None) -> Prompt:
    """The question's prompt, under another system message if one is given."""
    if system is None:
        return problem.prompt
    content = problem.prompt.content
    if isinstance(content, str):
        return Prompt.chat(content, system)
    return Prompt((Message("system", system), *(one for one in content if one.role != "system")))


def seeds_for(plan: Plan, questions: int) -> Seeds:
    """Seeds of 32 bits, which every server takes, as long as there are enough of them."""
    wide = Seeds(plan.seed, cap=max(4096, plan.max_per_question or 0))
    if questions <= wide.questions:
        return wide
    narrow = Seeds(plan.seed, cap=plan.max_per_question or 4096)
    return (
        narrow
        if questions <= narrow.questions
        else Seeds(plan.seed, cap=max(4096, plan.max_per_question or 0), bits=63)
    )
