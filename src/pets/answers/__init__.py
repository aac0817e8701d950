"""Answer types, one file each: what a trace said, as a canonical answer, so that equal answers vote together."""
