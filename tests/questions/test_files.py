"""Files of questions: what is written is read back, every format holds the same, and every bad line has its number."""

import gzip
import io
import json
from dataclasses import replace

import pyarrow
import pyarrow.parquet
import pytest

from pets.errors import InputError
from pets.questions import Problem, QuestionSet, named_sets, parse_fields, question_set, read_questions, write_questions
from pets.registry import make_answer_type
from pets.samplers import Prompt, Sampling

ROWS = [
    {"nr": "a", "problem": 'What is 2 + 2,\n"exactly"?', "answer": "4", "kind": "number", "n": 2},
    {"nr": "b", "problem": "Qu'est-ce ☃ ?", "answer": None, "kind": "text", "n": None},
]
FIELDS = {"id": "nr", "answer_type": "kind", "options": "n"}
EXPECTED = (
    Problem("a", Prompt.chat('What is 2 + 2,\n"exactly"?'), "number", "4", options=2),
    Problem("b", Prompt.chat("Qu'est-ce ☃ ?"), "text"),
)


def test_a_set_survives_the_round_trip(tmp_path):
    problems = question_set("starter").problems
    text = io.StringIO()
    write_questions(problems, text)
    path = tmp_path / "starter.jsonl"
    path.write_text(text.getvalue(), "utf-8")
    assert read_questions(path).problems == problems


def test_a_question_is_asked_as_a_chat(tmp_path):
    path = tmp_path / "mine.jsonl"
    path.write_text(
        '{"question": "What is 2 + 2?", "gold": 4, "answer_type": "number"}\n\n{"id": 7, "prompt": "1, 2,"}\n'
    )
    first, second = read_questions(path).problems
    assert (first.id, first.gold, first.prompt) == ("1", "4", Prompt.chat("What is 2 + 2?"))
    assert (second.id, second.prompt, second.answer_type) == ("7", Prompt("1, 2,"), "auto")


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{", "not JSON"),
        ("[1]", "a question is an object"),
        ('{"id": "x"}', "there is no question"),
        ('{"id": "x", "prompt": ""}', "the prompt is empty"),
        ('{"id": "x", "question": " "}', "the question is empty"),
        ('{"id": "x", "question": null}', "the question is empty. Write one, or drop the line."),
        ('{"id": "x", "prompt": [{"role": "boss", "content": "a"}]}', "there is no question"),
        ('{"id": "x", "prompt": "a", "answer_type": "colour"}', "no answer type 'colour'"),
        ('{"id": "x", "prompt": "a", "answer_type": "python:textwrap:dedent"}', "no file can name"),
        ('{"id": "x", "prompt": "a", "answer_type": "judge:endpoint=http://x/v1"}', "no file can name"),
        ('{"id": "x", "prompt": "a", "options": 1}', "at least 2"),
        ('{"id": ["x"], "prompt": "a"}', "expected a string"),
        ('{"id": "good", "prompt": "a"}', "as on line 1"),
    ],
)
def test_a_bad_line_is_named(tmp_path, line, message):
    path = tmp_path / "bad.jsonl"
    path.write_text('{"id": "good", "prompt": "a"}\n' + line + "\n")
    with pytest.raises(InputError, match=r'"bad\.jsonl" line 2') as error:
        read_questions(path)
    assert message in str(error.value)


def test_a_missing_or_empty_file_and_an_unknown_set_say_so(tmp_path):
    with pytest.raises(InputError, match="there is no file"):
        read_questions(tmp_path / "none.jsonl")
    (tmp_path / "empty.jsonl").write_text("\n")
    with pytest.raises(InputError, match="holds no question"):
        read_questions(tmp_path / "empty.jsonl")
    with pytest.raises(InputError, match=", ".join(named_sets())):
        question_set("nothing")


def write_rows(path):
    lines = "".join(json.dumps(row) + "\n" for row in ROWS)
    if path.suffix == ".parquet":
        pyarrow.parquet.write_table(pyarrow.Table.from_pylist(ROWS), path)
    elif path.suffix in (".csv", ".tsv"):
        mark = "," if path.suffix == ".csv" else "\t"
        quoted = [['"{}"'.format(str(cell or "").replace('"', '""')) for cell in row.values()] for row in ROWS]
        path.write_text("\n".join(map(mark.join, [list(ROWS[0]), *quoted])) + "\n", "utf-8-sig")
    elif path.suffix == ".json":
        path.write_text(json.dumps(ROWS))
    elif path.suffix == ".gz":
        path.write_bytes(gzip.compress(lines.encode()))
    else:
        path.write_text(lines, "utf-8-sig")
    return path


@pytest.mark.parametrize("suffix", [".jsonl", ".jsonl.gz", ".json", ".csv", ".tsv", ".parquet"])
def test_every_format_holds_the_same(tmp_path, suffix):
    questions = read_questions(write_rows(tmp_path / f"mine.v2{suffix}"), fields=FIELDS)
    assert questions.problems == EXPECTED and questions.name == "mine.v2"


def test_a_field_that_stands_for_another_is_not_its_own(tmp_path):
    """Whoever names the question does not mean the prompt."""
    path = tmp_path / "mine.jsonl"
    path.write_text('{"body": "2 + 2?", "final": "4", "level": 3, "prompt": "not this", "answer": "nor this"}\n')
    fields = parse_fields(["question=body", "gold=final"])
    (problem,) = read_questions(path, fields=fields, answer_type="number").problems
    assert problem == Problem("1", Prompt.chat("2 + 2?"), "number", "4", "3")


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        (["question"], "NAME=COLUMN"),
        (["colour=problem"], "one of id, question"),
        (["gold="], "NAME=COLUMN"),
        (["gold=a", "gold=b"], "given twice"),
    ],
)
def test_a_bad_mapping_is_named(texts, message):
    with pytest.raises(InputError, match=message):
        parse_fields(texts)


@pytest.mark.parametrize(
    ("name", "content", "fields", "message"),
    [
        ("a.csv", "problem,answer\n2+2?,4\n", {"question": "text"}, 'line 2: there is no field "text"; the fields are'),
        ("a.csv", "question,answer\n2+2?,number\n", {"gold": "gold"}, 'no question has a field "gold"'),
        ("a.csv", "question,answer\n2+2?,number\n3+3?,number\n", {}, "--field answer_type=answer"),
        ("a.csv", "question,gold,answer\n2+2?,4,number\n", {}, "line 2: .*--field answer_type=answer"),
        ("a.csv", "body\n2+2?\n", {}, r'fields are "body"; --field question=NAME'),
        ("a.xlsx", "PK", {}, "Save it as CSV"),
        ("a.csv", "question\n2+2?,4\n", {}, "line 2: it has more cells than the head"),
        ("a.csv", 'question\n"2+2?\n', {}, "not CSV"),
        ("a.csv", "question\n", {}, "holds no question"),
        ("a.csv", "question,options\n2+2?,one\n", {}, '"options" is "one"'),
        ("a.json", "[", {}, "not JSON"),
        ("a.json", "[3]", {}, "entry 1: a question is an object"),
        ("a.parquet", "nothing", {}, "not Parquet"),
        ("a.jsonl.gz", "nothing", {}, "cannot be read"),
        ("a.jsonl", '{"question": "2+2?", "answer_type": 4}', {}, "it is how answers are read"),
    ],
)
def test_what_cannot_be_used_is_one_clear_line(tmp_path, name, content, fields, message):
    (tmp_path / name).write_text(content)
    with pytest.raises(InputError, match=message) as error:
        read_questions(tmp_path / name, fields=fields)
    assert "\n" not in str(error.value) and name in str(error.value)


def test_a_csv_that_is_not_utf_8_says_so(tmp_path):
    (tmp_path / "a.csv").write_bytes("question\nQu'est-ce ça ?\n".encode("latin-1"))
    with pytest.raises(InputError, match=r'"a\.csv": byte \d+ is not UTF-8'):
        read_questions(tmp_path / "a.csv")


def test_a_long_prompt_fits_in_a_cell(tmp_path):
    (tmp_path / "a.csv").write_text("question\n" + "x" * 200_000 + "\n")
    assert len(read_questions(tmp_path / "a.csv").problems[0].prompt.content[0].content) == 200_000


@pytest.mark.parametrize(
    ("names", "row"),
    [
        ("question,answer", "2 + 2?,4"),
        ("problem;target", "2 + 2?;4"),
        ("Query\tLabel", "2 + 2?\t4"),
        ("input|solution", '"2 + 2?"|4'),
        ("Question, Gold", '2 + 2?, "4"'),
    ],
)
def test_usual_names_are_known_under_any_separator(tmp_path, names, row):
    (tmp_path / "mine.csv").write_text(f"\ufeff{names}\n{row}\n\n", "utf-8")
    assert read_questions(tmp_path / "mine.csv").problems == (Problem("1", Prompt.chat("2 + 2?"), "auto", "4"),)


def test_an_answer_is_gold_even_where_one_of_many_looks_like_a_type(tmp_path):
    path = tmp_path / "words.jsonl"
    rows = [{"question": "A synonym of script?", "answer": "text"}, {"question": "Of home?", "answer": "house"}]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert [problem.gold for problem in read_questions(path).problems] == ["text", "house"]
    path.write_text(json.dumps(rows[0]) + "\n")
    assert read_questions(path, fields={"gold": "answer"}).problems[0].gold == "text"


def test_a_text_file_has_a_question_per_line(tmp_path):
    (tmp_path / "mine.txt").write_text("What is 2 + 2?\n\n  And, then, 3 + 3?  \n")
    assert [(p.id, p.prompt) for p in read_questions(tmp_path / "mine.txt").problems] == [
        ("1", Prompt.chat("What is 2 + 2?")),
        ("2", Prompt.chat("And, then, 3 + 3?")),
    ]


@pytest.mark.parametrize(
    ("options", "gold"),
    [
        (["one", "two"], 1),
        (["one", "two"], "B"),
        (["one", "two"], "1"),
        (["one ", "two"], " two"),
        ('["one", "two"]', "two"),
        ({"text": ["one", "two"], "label": ["A", "B"]}, "B"),
        ({"text": ["one", "two"], "label": ["1", "2"]}, "2"),
        ({"text": ["one", "two"], "label": ["A", "B"]}, "two"),
        (["one", "two"], "(b)"),
        (["one", "two"], "Two is a multiple of itself. The answer is (B)."),
    ],
)
def test_listed_choices_are_asked_with_letters_and_gold_is_one_of_them(tmp_path, gold, options):
    path = tmp_path / "mine.jsonl"
    path.write_text(json.dumps({"question": "Which is even?", "choices": options, "answer": gold}))
    (problem,) = read_questions(path).problems
    asked = Prompt.chat("Which is even?\n\nA) one\nB) two")
    assert replace(problem, gold="") == Problem("1", asked, "choice:options=2", "", options=2)
    assert make_answer_type(problem.answer_type).gold_form(problem.gold) == "B"


@pytest.mark.parametrize("gold", ["three", "C", 2, "2", "-2", "see below"])
def test_gold_that_is_none_of_the_options_is_refused_in_one_line(tmp_path, gold):
    path = tmp_path / "mine.jsonl"
    path.write_text(json.dumps({"id": "q7", "question": "Which is even?", "options": ["one", "two"], "gold": gold}))
    with pytest.raises(
        InputError, match=r"""mine.jsonl" line 1: .*'q7'.* none of its options, \["one", "two"\]"""
    ) as error:
        read_questions(path)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("gold", [None, "", -1, "-1"])
def test_options_may_come_without_gold(tmp_path, gold):
    path = tmp_path / "mine.jsonl"
    path.write_text(json.dumps({"question": "Which is even?", "options": ["one", "two"], "gold": gold}))
    assert read_questions(path).problems[0].gold is None


def test_options_that_are_numbers_are_named_by_their_value_in_a_table_too(tmp_path):
    path = tmp_path / "mine.csv"
    path.write_text('question,options,gold\nWhich is even?,"[1, 2, 3]",2\n')
    assert read_questions(path).problems[0].gold == "B"


def test_gold_beside_options_is_read_by_the_type_that_the_question_names(tmp_path):
    path = tmp_path / "mine.jsonl"
    record = {"question": "2 + 2?", "options": ["2", "3"], "answer_type": "number", "gold": "4"}
    path.write_text(json.dumps(record))
    assert read_questions(path).problems[0].gold == "4"


def test_choices_that_the_question_spells_out_are_not_repeated(tmp_path):
    path = tmp_path / "mine.jsonl"
    path.write_text(json.dumps({"question": "Which? (A) one (B) two", "options": ["one", "two"], "gold": "A"}))
    assert read_questions(path).problems[0].prompt == Prompt.chat("Which? (A) one (B) two")


def test_options_that_are_numbers_are_named_by_their_value(tmp_path):
    path = tmp_path / "mine.jsonl"
    path.write_text(json.dumps({"question": "Which is even?", "choices": [1, 2, 3], "answerKey": 2}))
    (problem,) = read_questions(path).problems
    assert problem.gold == "B" and "B) 2" in problem.prompt.content[0].content


def test_no_file_runs_code_by_naming_a_function(tmp_path, monkeypatch):
    (tmp_path / "evil.py").write_text("raise SystemExit('a file of questions has run me')")
    monkeypatch.syspath_prepend(tmp_path)
    path = tmp_path / "mine.jsonl"
    path.write_text(json.dumps({"question": "?", "answer_type": "python:evil:main"}))
    with pytest.raises(InputError, match="no file can name"):
        read_questions(path)
    path.write_text(json.dumps({"question": "?", "answer": "python:evil:main"}))
    assert read_questions(path).problems[0].gold == "python:evil:main"


def test_a_question_without_an_id_is_refused():
    with pytest.raises(InputError, match='has no "id"'):
        Problem("", Prompt("2 + 2 ="))


def test_a_question_is_read_as_text_and_a_set_is_drawn_plainly_where_nothing_else_is_said():
    problem = Problem("q", Prompt("2 + 2 ="))
    assert (problem.answer_type, problem.gold, problem.level, problem.options) == ("text", None, "", None)
    assert QuestionSet("mine", (problem,)).sampling == Sampling()


def test_options_in_columns_of_their_letters_are_asked_and_judged(tmp_path):
    path = tmp_path / "mmlu.csv"
    path.write_text("id,question,A,B,C,D,answer\na,Which?,cat,dog,owl,,B\nb,How many?,1,2,3,4,C\n")
    first, second = read_questions(path).problems
    assert first.prompt.content[0].content.endswith("A) cat\nB) dog\nC) owl")
    assert (first.gold, first.answer_type, first.options) == ("B", "choice:options=3", 3)
    assert (second.gold, second.options) == ("C", 4)
    path.write_text("id,question,A,answer\na,Which?,cat,dog\n")
    (plain,) = read_questions(path).problems
    assert plain.options is None and plain.gold == "dog"
