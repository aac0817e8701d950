"""PETS inside other frameworks; each module needs the framework's own extra and is imported by its name."""
