"""Questions to sample: sets that ship with PETS, the paper's benchmarks, and files of the user's own."""

from pets.questions.files import Problem, QuestionSet, parse_fields, read_questions, stream_questions, write_questions
from pets.questions.sets import find_questions, named_sets, question_set

__all__ = ["Problem", "QuestionSet", "find_questions", "named_sets", "parse_fields", "question_set"]
__all__ += ["read_questions", "stream_questions", "write_questions"]
