"""Test PETS inside other tools, against their own packages: ``make integrations``, or some of them by name.

    python -m scripts.integrations [lm-eval ...]

Each tool gets an environment of its own in ``.venv-integrations``: they pin versions of the same packages, and of ours.
CI does not run this. What is tested, its size on disk, and the minutes of installing and testing on two cores:

    lm-eval     0.4.13                        0.8 GB     3 min
    dspy        3.4.1 (LiteLLM 1.106.2)       0.6 GB     1 min
    litellm     1.106.2 with its proxy        0.9 GB     6 min
    clients     openai 2.54.0, langchain-openai 1.7.3, llama-index-llms-openai-like 0.8.1, LiteLLM 1.106.2
                                              0.7 GB     2 min
    its-hub     1.2.0                         0.3 GB     1 min

LiteLLM 1.108 and 1.109 ask for a certifi of 2026-10-19 or later, which the index here did not have on 2026-11-18.
"""

import os
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / ".venv-integrations"
TESTING = ("pytest>=8.3", "pytest-timeout>=2.3", "hypothesis>=6.112", "httpx>=0.28")
OFFLINE = {"HF_HUB_OFFLINE": "1", "LITELLM_LOCAL_MODEL_COST_MAP": "True"}  # they look for newer files by themselves
# For each tool: what is installed beside PETS where that is no extra of its name, and its tests.
TOOLS: dict[str, tuple[tuple[str, ...], str]] = {
    "lm-eval": ((), "tests/integrations/test_lm_eval.py"),
    "dspy": ((), "tests/integrations/test_dspy.py"),
    "litellm": ((), "tests/integrations/test_litellm.py"),
    "clients": (
        ("openai==2.54.0", "langchain-openai==1.7.3", "llama-index-llms-openai-like==0.8.1", "litellm==1.106.2"),
        "tests/integrations/test_clients.py",
    ),
    "its-hub": (("its_hub==1.2.0",), "tests/integrations/test_its_hub.py"),
}


def main(names: Sequence[str]) -> int:
    """Install what is missing and test; 1 where a test failed, 2 where there is no such tool."""
    if unknown := set(names) - TOOLS.keys():
        sys.stderr.write(f"there is no {', '.join(unknown)}; there are {', '.join(TOOLS)}.\n")
        return 2
    failed = False
    for name in names or TOOLS:
        began = time.monotonic()
        requirements, tests = TOOLS[name]
        python = install(name, requirements)
        command = [str(python), "-m", "pytest", "-m", "integrations", "-p", "no:cacheprovider", tests]
        failed |= subprocess.run(command, cwd=ROOT, env=os.environ | OFFLINE, check=False).returncode != 0
        size = sum(path.stat().st_size for path in (FOLDER / name).rglob("*") if path.is_file()) / 1e9
        sys.stderr.write(f"{name}: {size:.1f} GB, {(time.monotonic() - began) / 60:.0f} min\n")
    return int(failed)


def install(name: str, requirements: Sequence[str]) -> Path:
    """The interpreter of the tool's environment, which is made where it is missing or out of date."""
    folder = FOLDER / name
    python, stamp = folder / "bin" / "python", folder / ".ready"
    wanted = [f"{ROOT}[serve]" if requirements else f"{ROOT}[serve,{name}]", *requirements, *TESTING]
    if not stamp.exists() or stamp.read_text("utf-8") != "\n".join(wanted):
        sys.stderr.write(f"Installing {', '.join(requirements or [name])} into {folder.relative_to(ROOT)} ...\n")
        subprocess.run([sys.executable, "-m", "venv", folder], check=True)
        pip = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        subprocess.run([*pip, "--editable", *wanted], check=True)
        stamp.write_text("\n".join(wanted), "utf-8")
    return python


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
