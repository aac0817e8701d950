"""The documentation site: the pages of docs/, and pages made from the command line, the docstrings and the examples."""
