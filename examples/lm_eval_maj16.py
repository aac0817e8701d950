"""lm-eval at maj@16, then the same task at 5 generations per question: ``pip install "pets-llm[lm-eval,mock]"``.

A mock server on this machine stands in for a model. Both runs are lm-eval's own command line, and both read one task;
what differs is ``--model pets``. Give a folder to keep lm-eval's results and samples.
"""

import json
import os
import subprocess
import sys
from pathlib import Path
from tempfile import mkdtemp

from pets.mock import MockModel, PoolAnswers, running
from pets.pools import load
from pets.questions import question_set

TASK = """
task: maj16
dataset_path: json
dataset_kwargs: {data_files: {test: questions.jsonl}}
test_split: test
output_type: generate_until
doc_to_text: "{{prompt}}"
doc_to_target: "{{gold}}"
repeats: 16
generation_kwargs: {until: [], do_sample: true, temperature: 0.7, max_gen_toks: 512, seed: null}
filter_list:
  - name: maj@16
    filter: [{function: regex, regex_pattern: 'boxed\\{(.*)\\}'}, {function: majority_vote}, {function: take_first}]
metric_list: [{metric: exact_match, aggregation: mean, higher_is_better: true}]
"""
folder = Path(sys.argv[1] if sys.argv[1:] else mkdtemp())
problems = question_set("starter").problems
prompts = {str(problem.prompt.content): problem.id for problem in problems}
questions = [{"prompt": problem.prompt.content, "gold": problem.gold} for problem in problems]
(folder / "questions.jsonl").write_text("".join(json.dumps(question) + "\n" for question in questions), "utf-8")
(folder / "maj16.yaml").write_text(TASK, "utf-8")
settings = {"OPENAI_API_KEY": "none", "HF_HUB_OFFLINE": "1", "HF_DATASETS_CACHE": str(folder / "cache")}


def score(name: str, module: str, model: str) -> None:
    """Run the task by lm-eval's command line; print what it cost and what it scored."""
    mock = MockModel(
        PoolAnswers(load("starter")), prompts={str(problem.prompt.content): problem.id for problem in problems}
    )
    with running(mock) as url:
        arguments = f"{model}base_url={url}/chat/completions,model=mock,num_concurrent=32"
        command = [sys.executable, "-m", module, "run", "--tasks", "maj16", "--include_path", ".", "--log_samples"]
        command += ["--output_path", name, "--apply_chat_template", "--model_args", arguments]
        command += ["--model", "pets" if model else "local-chat-completions"]
        subprocess.run(command, cwd=folder, env=os.environ | settings, check=True, capture_output=True)
    [results] = (folder / name).rglob("results*.json")
    row = json.loads(results.read_text("utf-8"))["results"]["maj16"]
    value, error = row["exact_match,maj@16"], row["exact_match_stderr,maj@16"]
    print(f"{name}: {mock.stats.traces} generations, exact match {value:.3f} ± {error:.3f}")


score("before", "lm_eval", "")
score("after", "pets.integrations.lm_eval", "inner=local-chat-completions,budget=5x,")
