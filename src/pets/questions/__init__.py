"""Questions to sample: sets that ship with PETS, and files of the user's own."""

from pets.questions.files import read_questions, write_questions
from pets.questions.problem import Problem, QuestionSet
from pets.questions.sets import named_sets, question_set

__all__ = ["Problem", "QuestionSet", "named_sets", "question_set", "read_questions", "write_questions"]
