"""When the choice of a plan does not hold any more."""

from gsdm_grid.optimizer.staleness import stale, stale_data
from gsdm_grid.trials.trial_runs import this_machine


def test_a_choice_is_stale_on_another_machine_or_for_other_data():
    here = this_machine()
    assert stale(here, this_machine()) == []
    assert stale({**here, "cores": 1000}, here) == [f"it was chosen with cores 1000, here it is {here['cores']}"]
    assert stale_data(1000, 1200) == []
    assert stale_data(1000, 2000) == ["it was chosen for windows of 1000 bytes, these have 2000"]
