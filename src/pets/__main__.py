"""``python -m pets``."""

from pets.cli.main import main

if __name__ == "__main__":
    main()
