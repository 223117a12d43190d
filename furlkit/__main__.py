"""Entry point of `python -m furlkit`, equal to `furlkit`."""

from furlkit.cli import main

if __name__ == "__main__":
    main()
