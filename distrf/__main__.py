"""`python -m distrf`."""

from .cli import main

if __name__ == "__main__":
    main()
