"""What a script that uses Spark through `Grid` shows: what its functions print; of Spark only what was asked for."""

import subprocess
import sys

import pytest

pytestmark = [pytest.mark.slow, pytest.mark.grid]
SCRIPT = """
import sys

from gsdm_grid import Grid, Radio, central, cq, current_window, register_input_stream, sqf
from gsdm_grid.config import Settings


@sqf(Radio, returns=Radio)
def talking(s):
    print("a function was here", file=sys.stderr, flush=True)
    return current_window(s)


if __name__ == "__main__":
    with Grid("spark", Settings(spark_log_level={level!r})) as grid:
        radio = register_input_stream("Radio", None, "synthetic_radio", window=64)
        print(len(list(cq(central(talking), [radio], grid=grid).run(count=1).results())))
"""


@pytest.mark.timeout(300)
@pytest.mark.parametrize(("level", "says_more"), [(None, False), ("WARN", True)])
def test_of_spark_a_script_shows_what_was_asked_for(tmp_path, level, says_more):
    script = tmp_path / "script.py"
    script.write_text(SCRIPT.format(level=level))
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, timeout=280, check=False)
    assert (done.returncode, done.stdout) == (0, "1\n"), done.stderr
    assert "a function was here" in done.stderr
    others = [line for line in done.stderr.splitlines() if line != "a function was here"]
    assert bool(others) == says_more, done.stderr
