"""`python -m furlkit` is the same program as `furlkit`."""

from furlkit.cli import main

if __name__ == "__main__":
    main()
