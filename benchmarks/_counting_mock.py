"""A mock that counts, for each launch, the tokens that it has generated, whether anybody took them or not."""

import math
from collections import defaultdict

from pets.engine import RunSpec
from pets.mock import MockModel
from pets.mock.completions import CompletionResponse

CAP = RunSpec().seeds(1).cap  # a launch's seed is its number, beyond a multiple of this


class CountingMock(MockModel):
    """Counts by question, as the mock finds it in the prompt, and by the number of the launch, as its seed says."""

    def __init__(self, *arguments: object, **settings: object) -> None:
        super().__init__(*arguments, **settings)  # type: ignore[arg-type]
        self.generated: dict[str, dict[int, list[int]]] = defaultdict(lambda: defaultdict(list))

    def count_served(self, response: CompletionResponse) -> None:
        super().count_served(response)
        self._count(response, math.inf)

    def count_lost(self, response: CompletionResponse, abandoned: bool = False, written: float = math.inf) -> None:
        super().count_lost(response, abandoned, written)
        self._count(response, written)

    def _count(self, response: CompletionResponse, written: float) -> None:
        request = response.request
        question = request.prompts[0].split()[-1]
        for number, choice in enumerate(response.choices, (request.seed or 0) % CAP):
            self.generated[question][number].append(int(min(choice.tokens, written)))

    @property
    def twice(self) -> int:
        """Launches that were asked for more than once."""
        return sum(len(times) > 1 for launches in self.generated.values() for times in launches.values())
