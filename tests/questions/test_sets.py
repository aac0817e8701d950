"""Questions by name: the paper's benchmarks from local files in their own schemas, files, and stdin in any format."""

import csv
import io
import json
import sys
import types
from collections import Counter

import pyarrow
import pyarrow.parquet
import pytest

from pets.errors import InputError
from pets.questions import Problem, find_questions, question_set, read_questions, write_questions
from pets.questions.sets import BENCHMARKS
from pets.registry import make_answer_type
from pets.samplers import Prompt

STARTER = question_set("starter").problems
BOXED = "within \\boxed{}."
ARENA = [
    {"problem_idx": 1, "answer": "\\frac{1}{2}", "problem_type": ["Algebra", "Geometry"], "problem": "Halve $1$."},
    {"problem_idx": 2, "answer": "7", "problem_type": [], "problem": "Count {seven}."},
]
GPQA = [
    {
        "Record ID": f"rec{n}",
        "Question": f" Which planet is number {n}?\n",
        "Correct Answer": f"planet {n}\n",
        "Incorrect Answer 1": "a moon",
        "Incorrect Answer 2": "a comet",
        "Incorrect Answer 3": "a star",
        "High-level domain": "Physics",
        "Subdomain": "Astronomy",
    }
    for n in range(12)
]
PRO = [
    {
        "question_id": 70,
        "question": "Which word is a colour?",
        "options": ["dog", "run", "N/A", "red", "N/A"],
        "answer": "D",
        "answer_index": 3,
        "cot_content": "",
        "category": "other",
        "src": "made up",
    }
]
ROWS = {
    "aime24": [{"id": 60, "problem": "Count to 25.", "solution": "25", "answer": "025", "url": "", "year": "2024"}],
    "aime25": [{"problem_idx": 1, "problem": "Count to 3.", "answer": 3, "problem_type": ["Number Theory"]}],
    "hmmt": ARENA,
    "brumo": ARENA,
    "gpqa": GPQA,
    "mmlu-pro": PRO,
    "math500": [
        {
            "problem": "Turn $(0,1)$ around.",
            "solution": "So $(0,-1)$.",
            "answer": "\\left( 0, -1 \\right)",
            "subject": "Precalculus",
            "level": 2,
            "unique_id": "test/precalculus/1.json",
        }
    ],
    "gsm8k": [{"question": "1,000 pens and 4 more?", "answer": "1,000 + 4 = <<1000+4=1004>>1,004\n#### 1,004"}],
}
EXPECTED = {  # id, answer type, gold, level, options of the first
    "aime24": ("aime24-60", "number", "025", "", None),
    "aime25": ("aime25-1", "number", "3", "Number Theory", None),
    "hmmt": ("hmmt-1", "math", "\\frac{1}{2}", "Algebra, Geometry", None),
    "brumo": ("brumo-1", "math", "\\frac{1}{2}", "Algebra, Geometry", None),
    "gpqa": ("gpqa-rec0", "choice:options=4", None, "Physics", 4),
    "mmlu-pro": ("mmlu-pro-70", "choice:options=3", "C", "other", 3),
    "math500": ("math500-test/precalculus/1.json", "math", "\\left( 0, -1 \\right)", "Precalculus", None),
    "gsm8k": ("gsm8k-1", "number", "1,004", "", None),
}


def copied(folder, name):
    """The set as the hub lays it out."""
    known = BENCHMARKS[name]
    if name == "gpqa":
        path = folder / "gpqa_diamond.csv"
        with path.open("w", newline="") as file:
            writer = csv.DictWriter(file, list(GPQA[0]))
            writer.writeheader()
            writer.writerows(GPQA)
        (folder / "gpqa_extended.csv").write_text("Question\nnot this one\n")
        return path
    path = folder / (known.config or "data") / f"{known.split}-00000-of-00001.parquet"
    path.parent.mkdir()
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(ROWS[name]), path)
    other = path.with_name("validation-00000-of-00001.parquet")
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist([{"x": 1}]), other)
    (folder / "dataset_infos.json").write_text("{}")
    return path


@pytest.mark.parametrize("name", sorted(BENCHMARKS))
def test_a_copy_is_read_with_prompt_answer_type_and_gold(tmp_path, name):
    path = copied(tmp_path, name)
    asked = question_set(name, tmp_path)
    assert asked == question_set(name, path) and len(asked.problems) == len(ROWS[name])
    first, expected = asked.problems[0], EXPECTED[name]
    found = (first.id, first.answer_type, first.gold, first.level, first.options)
    assert found[:2] == expected[:2] and found[3:] == expected[3:] and found[2] == (expected[2] or found[2])
    (message,) = first.prompt.content
    assert message.role == "user" and message.content.endswith(BOXED) and asked.sampling.max_tokens >= 2048
    kind = make_answer_type(first.answer_type)
    assert kind.extract(f"So it is \\boxed{{{first.gold}}}.") == kind.canonical(first.gold) is not None


@pytest.mark.parametrize("name", sorted(BENCHMARKS))
def test_a_set_is_the_same_after_a_round_trip(tmp_path, name):
    copied(tmp_path, name)
    asked = question_set(name, tmp_path)
    with (tmp_path / "own.jsonl").open("w") as file:
        write_questions(asked.problems, file)
    assert read_questions(tmp_path / "own.jsonl").problems == asked.problems


def test_gpqas_options_are_shuffled_by_seed_and_the_gold_follows(tmp_path):
    path = copied(tmp_path, "gpqa")
    golds = set()
    for seed in range(3):
        asked = question_set("gpqa", path, seed=seed).problems
        assert asked == question_set("gpqa", path, seed=seed).problems
        for n, problem in enumerate(asked):
            lines = problem.prompt.content[0].content.splitlines()
            options = dict(line.split(") ", 1) for line in lines if line[1:3] == ") ")
            assert options[problem.gold] == f"planet {n}"
            assert sorted(options) == ["A", "B", "C", "D"]
            assert sorted(options.values()) == sorted(["a moon", "a comet", "a star", f"planet {n}"])
            golds.add(problem.gold)
    assert golds == {"A", "B", "C", "D"}
    by_seed = [[problem.gold for problem in question_set("gpqa", path, seed=seed).problems] for seed in (0, 1)]
    assert by_seed[0] != by_seed[1]


def test_gpqas_order_depends_on_the_question_and_not_on_its_place(tmp_path):
    path = copied(tmp_path, "gpqa")
    lines = path.read_text().splitlines(keepends=True)
    whole = {problem.id: problem for problem in question_set("gpqa", path).problems}
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, list(GPQA[0]))
        writer.writeheader()
        writer.writerows(reversed(GPQA[3:]))
    assert len(lines) > 12 and all(whole[one.id] == one for one in question_set("gpqa", path).problems)


def test_the_hub_is_asked_by_name(monkeypatch):
    asked = []

    def load_dataset(*place, split):
        asked.append((*place, split))
        return ROWS["gsm8k"]

    monkeypatch.setitem(sys.modules, "datasets", types.SimpleNamespace(load_dataset=load_dataset))
    assert question_set("gsm8k").problems[0].gold == "1,004"
    assert asked == [("openai/gsm8k", "main", "test")]


def test_a_hub_that_does_not_answer_is_one_line(monkeypatch):
    def load_dataset(*place, split):
        raise ConnectionError("Couldn't reach it\non the Hub")

    monkeypatch.setitem(sys.modules, "datasets", types.SimpleNamespace(load_dataset=load_dataset))
    with pytest.raises(InputError, match=r"Couldn't reach it on the Hub.*--from") as error:
        question_set("gpqa")
    assert "\n" not in str(error.value)


def test_without_the_library_the_message_says_how_to_get_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "datasets", None)
    with pytest.raises(InputError, match=r"pets-llm\[datasets\]"):
        question_set("aime24")


@pytest.mark.parametrize(
    ("name", "row", "said"),
    [
        ("aime24", {"title": "x"}, 'line 1: there is no "answer"; the fields are "title"'),
        ("hmmt", {"answer": "1"}, 'no "problem"'),
        ("gsm8k", {"question": "x", "answer": "18"}, 'expected "####"'),
        ("gpqa", {"Question": "x"}, 'no "Correct Answer"'),
        ("mmlu-pro", {"question": "x", "options": "a, b"}, "a list of texts"),
        ("mmlu-pro", {"question": "x", "options": ["a", "b"], "answer_index": 2}, "number 2 of 2"),
    ],
)
def test_a_file_of_another_schema_is_named(tmp_path, name, row, said):
    path = tmp_path / "other.jsonl"
    path.write_text(json.dumps(row) + "\n")
    with pytest.raises(InputError, match=said):
        question_set(name, path)


def test_an_empty_copy_and_two_copies_at_once_say_so(tmp_path):
    with pytest.raises(InputError, match="holds no data"):
        question_set("aime24", tmp_path)
    for name in ("a.jsonl", "b.jsonl"):
        (tmp_path / name).write_text(json.dumps(ROWS["aime24"][0]) + "\n")
    with pytest.raises(InputError, match=r"b\.jsonl\" line 1: \"id\" is 'aime24-60', as on \"a\.jsonl\" line 1"):
        question_set("aime24", tmp_path)
    with pytest.raises(InputError, match="comes with pets"):
        question_set("starter", tmp_path)


OF_ONE_QUESTION = (Problem("a", Prompt.chat("2 + 2?"), "auto", "4"),)


@pytest.mark.parametrize(
    "text",
    [
        json.dumps({"id": "a", "question": "2 + 2?", "answer": 4}) + "\n",
        json.dumps([{"id": "a", "question": "2 + 2?", "answer": 4}], indent=1),
        "id,question,answer\na,2 + 2?,4\n",
        "id;question;answer\na;2 + 2?;4\n",
    ],
    ids=["jsonl", "json", "csv", "semicolons"],
)
def test_stdin_is_read_in_the_format_that_it_shows(monkeypatch, text):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
    assert find_questions("-").problems == OF_ONE_QUESTION


def test_plain_lines_on_stdin_are_questions(monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"What is 2, or 3?\nAnd then?\n")))
    questions = find_questions("-")
    assert [problem.prompt.content[0].content for problem in questions.problems] == ["What is 2, or 3?", "And then?"]


def test_an_empty_or_bad_stdin_is_one_line(monkeypatch):
    for text, message in (("", "holds no question"), ("{oops\n", "questions on stdin line 1: this is not JSON")):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
        with pytest.raises(InputError, match=message):
            find_questions("-")


def test_a_file_that_is_named_like_a_set_needs_its_path_only_where_fields_are_given(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "starter").write_text(json.dumps({"id": "a", "body": "2 + 2?", "answer": 4}))
    assert find_questions("starter", {"question": "body"}).problems == OF_ONE_QUESTION
    assert len(find_questions("starter").problems) == 300


def test_about_300_questions_of_every_level_with_ids_of_their_own():
    levels = Counter(problem.level for problem in STARTER)
    assert 250 <= len(STARTER) <= 350
    assert min(levels.values()) >= 15 and len(levels) == 6
    assert len({problem.id for problem in STARTER}) == len({problem.prompt for problem in STARTER}) == len(STARTER)


def test_every_gold_is_right_and_canonical_up_to_case():
    for problem in STARTER:
        kind, *operands = problem.id.split("-")
        if kind != "fact":
            a, b = map(int, operands)
            assert problem.gold == str({"sum": a + b, "difference": a - b, "product": a * b}[kind])
            assert f"{a} {'+-x'[['sum', 'difference', 'product'].index(kind)]} {b}?" in problem.prompt.content
        assert make_answer_type(problem.answer_type).canonical(problem.gold) == problem.gold.lower(), problem.id


def test_no_question_is_among_its_own_examples():
    for problem in STARTER:
        *shots, asked = problem.prompt.content.split("Question: ")[1:]
        assert asked.endswith("\nAnswer:") and not any(shot.startswith(asked) for shot in shots)


def test_every_example_is_read_as_its_own_answer():
    for problem in STARTER:
        *shots, _ = problem.prompt.content.split("Question: ")[1:]
        read = make_answer_type(problem.answer_type).extract
        assert all(read(shot.split("Answer:")[1]) is not None for shot in shots)


def test_any_first_part_mixes_the_levels():
    first = Counter(problem.level for problem in STARTER[:60])
    assert len(first) == 6 and max(first.values()) <= 40


def written(folder, **files):
    """JSONL files by name, ``__`` for a slash."""
    for name, rows in files.items():
        path = folder / f"{name.replace('__', '/')}.jsonl"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return folder


def school(text):
    return [{"question": text, "answer": "#### 4"}]


def test_a_file_that_is_called_as_the_split_comes_before_one_that_only_holds_its_name(tmp_path):
    written(tmp_path, test=school("plain"), test_socratic=school("asked back"), train=school("to learn from"))
    (only,) = question_set("gsm8k", tmp_path).problems
    assert only.prompt.content[0].content.startswith("plain")


def test_shards_of_a_split_belong_together(tmp_path):
    shards = {f"main__test-0000{at}-of-00002-ab12": school(f"shard {at}") for at in (0, 1)}
    written(tmp_path, **shards, **{"main__train-00000-of-00001": school("no"), "socratic__test": school("no")})
    assert [one.id for one in question_set("gsm8k", tmp_path).problems] == ["gsm8k-1", "gsm8k-2"]


def test_aime_in_two_parts_with_questions_instead_of_problems(tmp_path):
    row = {"question": "Count to 70.", "answer": "70"}
    written(tmp_path, **{"aime2025-I": [row], "aime2025-II": [row | {"answer": "588"}]})
    assert [(one.id, one.gold) for one in question_set("aime25", tmp_path).problems] == [
        ("aime25-1", "70"),
        ("aime25-2", "588"),
    ]


def test_aime_with_large_column_names(tmp_path):
    written(tmp_path, problems=[{"ID": "2024-II-4", "Problem": "Count to 33.", "Solution": "...", "Answer": 33}])
    (one,) = question_set("aime24", tmp_path).problems
    assert (one.id, one.gold, one.answer_type) == ("aime24-2024-II-4", "33", "number")


class GenerationError(Exception):
    """Like some of the hub's libraries' own, none of Python's."""


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (
            FileNotFoundError("Dataset 'Idavidrein/gpqa' is a gated dataset on the Hub. You must be authenticated."),
            r"Accept its terms on https://huggingface\.co/datasets/Idavidrein/gpqa, then log in.*questions gpqa --from",
        ),
        (FileNotFoundError("Dataset 'x' doesn't exist on the Hub or cannot be accessed."), r"moved.*hf auth login"),
        (GenerationError("An error occurred\nwhile generating"), r"An error occurred while generating\).*--from"),
        (ConnectionError(), r"\(ConnectionError\)\. Check the name and the network.*--from"),
    ],
    ids=["gated", "missing", "broken", "away"],
)
def test_what_the_hub_does_not_give_is_one_line_with_what_to_do(monkeypatch, error, said):
    def load_dataset(*place, split):
        raise error

    exceptions = types.ModuleType("datasets.exceptions")
    exceptions.GenerationError, exceptions.config = GenerationError, object()
    monkeypatch.setitem(sys.modules, "datasets", types.SimpleNamespace(load_dataset=load_dataset))
    monkeypatch.setitem(sys.modules, "datasets.exceptions", exceptions)
    with pytest.raises(InputError, match=said) as caught:
        question_set("gpqa")
    assert "\n" not in str(caught.value)


def hub(monkeypatch, **splits):
    """A hub of one data set; what it was asked for."""
    asked = []

    def load_dataset(repository, config, split):
        asked.append((repository, config, split))
        return splits[split]

    module = types.SimpleNamespace(load_dataset=load_dataset, get_dataset_split_names=lambda name, config: [*splits])
    monkeypatch.setitem(sys.modules, "datasets", module)
    return asked


@pytest.mark.parametrize(
    ("name", "place", "gold"),
    [
        ("hf:org/sums", ("org/sums", None, "test"), "#### 4"),
        ("hf:org/sums/main", ("org/sums", "main", "test"), "#### 4"),
        ("hf:org/sums:train", ("org/sums", None, "train"), "#### 5"),
    ],
)
def test_any_data_set_of_the_hub_is_a_question_set(monkeypatch, name, place, gold):
    rows = {split: [{"question": "2 + 2?", "answer": f"#### {n}"}] for split, n in (("train", 5), ("test", 4))}
    asked = hub(monkeypatch, **rows)
    questions = find_questions(name)
    assert asked == [place] and questions.name == "org/sums"
    assert [problem.gold for problem in questions.problems] == [gold]


def test_a_data_set_whose_columns_are_unknown_is_mapped(monkeypatch):
    hub(monkeypatch, validation=[{"body": "2 + 2?", "final": 4}])
    with pytest.raises(InputError, match=r"hf:org/sums row 1: there is no question.*--field question=NAME"):
        find_questions("hf:org/sums")
    (problem,) = find_questions("hf:org/sums", {"question": "body", "gold": "final"}).problems
    assert problem.gold == "4"


def test_without_the_library_the_hint_is_a_command_that_exists(monkeypatch):
    monkeypatch.setitem(sys.modules, "datasets", None)
    with pytest.raises(InputError, match=r"pip install .*pets pools questions gsm8k --from FILE > gsm8k\.jsonl"):
        find_questions("gsm8k")
    with pytest.raises(InputError, match=r"pip install .*datasets.*\"$"):
        find_questions("hf:org/sums")


@pytest.mark.parametrize("name", ["hf:", "hf:sums", "hf:org/sums/a/b", "hf:org/sums:"])
def test_a_name_that_is_none_says_the_form(name):
    with pytest.raises(InputError, match=r"hf:ORG/NAME\[/CONFIG\]\[:SPLIT\]"):
        find_questions(name)
