"""PETS: spend a self-consistency sampling budget where it changes the vote."""
