"""Settings of every test: shared machines are slow at random, so no example has a deadline."""

from hypothesis import settings

settings.register_profile("pets", deadline=None)
settings.load_profile("pets")
