"""Where published sets come from: the layouts and mirrors that people have, and a hub that will not give them."""

import json
import sys
import types

import pytest

from pets.errors import InputError
from pets.questions import find_questions, question_set


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
