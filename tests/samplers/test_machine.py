"""Slots, context and threads fit the machine, or one line says what does not."""

from pathlib import Path

import pytest

from pets.errors import InputError, LocalModelError
from pets.samplers import machine
from pets.samplers.gguf import Weights
from pets.samplers.machine import GB, LocalModelConfig, cores, fit_config, free_memory

SMALL = Weights(Path("small.gguf"), GB // 10, context=8192, cache=23040)
LARGE = Weights(Path("large.gguf"), 5 * GB, context=32768, cache=131072)


def test_this_machine_has_cores_and_memory():
    assert cores() >= 1
    assert free_memory() > 0


def test_a_containers_limit_counts_without_the_files_that_it_caches(monkeypatch, tmp_path):
    for name, text in {"max": "1000", "current": "900", "stat": "anon 100\ninactive_file 300\nactive_file 500"}.items():
        (tmp_path / f"memory.{name}").write_text(text)
    monkeypatch.setattr(machine, "CGROUP", tmp_path)
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
