"""``python -m trainfeed`` is the command line."""

from trainfeed.cli import main

if __name__ == "__main__":
    main()
