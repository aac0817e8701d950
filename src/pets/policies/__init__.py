"""Allocation policies, one file each. A new file here is a new policy; nothing else is edited."""
