"""The version of this package; the distribution `pets-llm` takes it from here."""

__version__ = "0.1.0"
