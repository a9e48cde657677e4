"""``python -m gsdm_grid.cli``."""

from gsdm_grid.cli import main

if __name__ == "__main__":
    main()
