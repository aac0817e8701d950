"""The paper's figures and tables, drawn anew: ``make paper``."""
