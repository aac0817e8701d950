"""Places in flight: never more than there are, shared by payers, given back whatever happens."""

import asyncio
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pets.engine.places import Places

from ..simulated_time import run_simulated

SIZES = st.integers(1, 40)


@given(SIZES, st.lists(st.tuples(st.sampled_from("abc"), st.integers(-5, 1)), max_size=200))
def test_no_more_are_taken_than_there_are_and_one_payer_never_has_all(size, steps):
    places, held = Places(size, shared=lambda: True), Counter()
    for payer, number in steps:
        if number <= 0:
            number = max(number, -held[payer])
            places.give_back(payer, -number)
            held[payer] += number
        elif places.take(payer):
            held[payer] += 1
        assert places.taken == held.total() <= size
        assert all(places.taken_by(name) == held[name] for name in "abc")
        if size >= 2 and len(+held) == 1:
            assert places.room("another") >= 1


@pytest.mark.parametrize("size", [2, 3, 4, 8, 64, 256])
def test_one_payer_leaves_a_place_for_the_next_where_there_are_others_and_none_where_not(size):
    shared, alone = Places(size, shared=lambda: True), Places(size)
    while shared.take("alice"):
        pass
    while alone.take("alice"):
        pass
    assert size // 2 <= shared.taken < size and alone.taken == size
    assert shared.take("bob") and not alone.take("bob")


@settings(max_examples=50, deadline=None)
@given(st.sampled_from([1, 2, 5, 16]), st.booleans(), st.randoms(use_true_random=False))
def test_whoever_waits_is_served_or_gone_and_nothing_stays_taken(size, shared, random):
    async def work():
        places, most, served = Places(size, lambda: shared), 0, 0

        async def one(payer, number):
            nonlocal most, served
            await asyncio.sleep(random.choice([0, 0, 1, 2]))
            number = await places.acquire(payer, number, rank=random.randrange(3))
            most = max(most, places.taken)
            try:
                await asyncio.sleep(random.choice([0, 1, 3]))
            finally:
                places.give_back(payer, number)
            served += 1

        tasks = [asyncio.create_task(one(random.choice("abc"), random.randint(1, 9))) for _ in range(40)]
        for task in random.sample(tasks, 10):
            asyncio.get_running_loop().call_later(random.choice([0, 1, 2, 3]), task.cancel)
        await asyncio.gather(*tasks, return_exceptions=True)
        assert places.taken == 0 and not any(map(places.taken_by, "abc"))
        assert served == sum(not task.cancelled() for task in tasks) >= 30
        return most

    assert 1 <= run_simulated(work()) <= size


def test_payers_that_all_want_more_end_up_with_as_many_each():
    async def work():
        places, counts = Places(16, shared=lambda: True), []

        async def one(payer, seconds):
            await places.acquire(payer, 1)
            await asyncio.sleep(seconds)
            if payer == "bob":
                counts.append((places.taken_by("alice"), places.taken_by("bob")))
            places.give_back(payer)

        flood = [asyncio.create_task(one("alice", 1.0 + place / 100)) for place in range(200)]
        await asyncio.sleep(0.5)
        late = [asyncio.create_task(one("bob", 1.0 + place / 100)) for place in range(60)]
        await asyncio.gather(*flood, *late)
        return counts[10:40]

    assert all(abs(alice - bob) <= 2 for alice, bob in run_simulated(work()))


def test_one_place_goes_round_and_the_least_rank_of_a_payer_goes_first():
    async def work():
        places, order = Places(1, shared=lambda: True), []

        async def one(payer, rank):
            await places.acquire(payer, 1, rank)
            order.append(f"{payer}{rank}")
            await asyncio.sleep(1)
            places.give_back(payer)

        await asyncio.gather(one("z", 0), *(one(payer, rank) for payer in "ab" for rank in (0, 2, 1)))
        return order

    assert run_simulated(work()) == ["z0", "a0", "b0", "a1", "b1", "a2", "b2"]
