"""A grid that is only a formula, for tests of the search: what each site of a plan would spend."""

import pytest

from gsdm_grid.optimizer.trial_result import SiteCost, TrialResult


class PaperGrid:
    """Sites that spend what a formula says, per window: compute shares its work, partition and combine pay per way."""

    def __init__(self, space, compute=1.0, partition=(0.05, 0.01), combine=(0.05, 0.01), failing=()):
        self.space = space
        self.compute = compute
        self.spread = {"partition": partition, "combine": combine}
        self.failing = failing
        self.windows = 0

    def run(self, plan, count):
        """The result of a trial of a plan."""
        self.windows += count
        how = plan.stages[0]
        sites = []
        seen = {"partition": 0, "combine": 0}
        flow = self.space.flow(plan)
        levels = {"partition": 0, "combine": sum(site.role == "combine" for site in flow.sites) - 1}
        for site in flow.sites:
            if site.role == "compute":
                seconds = self.compute / (how.degree if how else 1)
            else:
                base, per_way = self.spread[site.role]
                outer = how.fan_outs[0]
                is_outer = seen[site.role] == levels[site.role]
                ways = how.fan_outs[0 if is_outer else -1]
                seconds = (base + per_way * ways) / (1 if is_outer or not how.tree else outer)
                seen[site.role] += 1
            sites.append(SiteCost(site.id, site.role, "thread", ("f",), seconds * count, 0.0, 0.0))
        return TrialResult(count, 0, 1.0, tuple(sites))


@pytest.fixture(scope="session")
def paper_grid():
    return PaperGrid
