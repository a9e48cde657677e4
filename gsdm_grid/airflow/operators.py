"""Operators: the steps of an optimization that Airflow schedules. The coordinator searches and measures.

Every step may be run again: its request carries a key that follows from the DAG run, or from the optimization and the
plan, so that a task that is retried, or was lost with its worker, finds what it began and goes on with that.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from airflow.sdk import BaseOperator
from airflow.sdk.exceptions import AirflowException, AirflowFailException, AirflowSkipException

from gsdm_grid.airflow import task_logs
from gsdm_grid.airflow.hooks import GsdmHook
from gsdm_grid.airflow.links import CoordinatorLink, QueryLink, ReportLink, TrialLink
from gsdm_grid.airflow.triggers import PATIENCE_S, TrialTrigger

if TYPE_CHECKING:
    from gsdm_grid.client import Client, Document, Trial

ATTACHED_S, LOOK_S = 10.0, 0.1
POOL = "gsdm_trials"
"""Pool of one slot, deferred tasks included, that trials belong into: they are run one at a time."""
LABEL = "{{ task.request['label'] }}"
"""What a trial that is mapped over is called: its plan."""
_NOTHING: tuple[Any, ...] = (None, "", [], {})


class GsdmOperator(BaseOperator):
    """Base of the operators: knows the connection, writes tables into the task's log."""

    ui_color, ui_fgcolor = "#dce9f5", "#16324f"

    def __init__(self, *, gsdm_conn_id: str = GsdmHook.default_conn_name, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.gsdm_conn_id = gsdm_conn_id

    @property
    def hook(self) -> GsdmHook:
        """The hook of its connection."""
        return GsdmHook(self.gsdm_conn_id)

    def show(self, lines: Iterable[str]) -> None:
        """Write lines into the log, each as one entry: so they stay aligned in Airflow's pages."""
        for line in lines:
            self.log.info("%s", line)


def run_key(context: Any) -> str:
    """What a task of one DAG run is called, in every try: the key that its request carries."""
    ti = context["ti"]
    return f"{ti.dag_id}-{ti.run_id}-{ti.task_id}-{ti.map_index}".replace(" ", "_")[-255:]


class _OfRequest(GsdmOperator):
    """What begins an optimization. ``request`` is the body of ``POST /v1/optimizations``; empty members are left out.

    Instead of a specification, or of a function with its inputs, it may name a ``query``: that one's specification is
    taken, and it gets the plan.
    """

    template_fields: Sequence[str] = ("request",)
    template_fields_renderers: ClassVar = {"request": "json"}

    def __init__(self, *, request: Document, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.request = request

    def wanted(self, client: Client) -> dict[str, Any]:
        """The request, with the query's specification if it names one."""
        given = {name: value for name, value in self.request.items() if value not in _NOTHING}
        name = given.pop("query", None)
        if name is None:
            return given
        for instead in ("function", "params", "inputs"):
            given.pop(instead, None)
        publish_to = list(dict.fromkeys([name, *given.get("publish_to", ())]))
        return {**given, "specification": dict(client.query(name).specification), "publish_to": publish_to}


class RecordSegmentOperator(_OfRequest):
    """Records windows of the stream, so that all trials see the same ones; gives the segment's id.

    Skipped if there is not one stream but several: trials then read the streams themselves. What cannot be optimized
    fails the task before anything is recorded.
    """

    def execute(self, context: Any) -> str:
        """Record, and wait until that is done."""
        with self.hook.asking() as client:
            wanted = self.wanted(client)
            inputs: Sequence[Any] = wanted.get("specification", wanted).get("inputs") or ()
            if len(inputs) != 1:
                raise AirflowSkipException(f"{len(inputs)} input streams: trials read them as they are")
            checked = client.check_optimization(wanted)
            self.log.info("%s plans of %s", f"{checked['plans']:,}", ", ".join(checked["functions"]))
            windows = int(wanted["count"])
            segment = client.record_segment(inputs[0], windows, idempotency_key=run_key(context))
        self.log.info("recorded %s windows as segment %s", f"{windows:,}", segment.id)
        return segment.id


class StartOptimizationOperator(_OfRequest):
    """Begins an optimization that is driven from here; gives its id."""

    operator_extra_links = (QueryLink(), ReportLink())

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.optimization: str | None = None
        self.query: str | None = None

    def execute(self, context: Any) -> str:
        """Begin it, or find it again."""
        self.query = self.request.get("query") or None
        with self.hook.asking() as client:
            wanted = self.wanted(client)
            spec = wanted.pop("specification", None)
            begun = client.optimize(spec, **wanted, driver="client", idempotency_key=run_key(context))
        self.optimization = begun.id
        self.log.info("optimization %s", self.optimization)
        return self.optimization


class _OfOptimization(GsdmOperator):
    """A step of an optimization; ``query``, if there is one, is what its page is linked to."""

    template_fields: Sequence[str] = ("optimization", "query")
    operator_extra_links: Collection[CoordinatorLink] = (QueryLink(), ReportLink())

    def __init__(self, *, optimization: Any, query: str | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.optimization = optimization
        self.query = query

    def pre_execute(self, context: Any) -> None:  # noqa: ARG002  # Airflow's
        """Refuse at once what can only fail."""
        if not self.optimization:
            raise AirflowFailException("there is no optimization: the task that begins it has not succeeded")


class AskRoundOperator(_OfOptimization):
    """Asks which trials to run next; gives their requests, to be mapped over. None: the search is over."""

    def __init__(self, *, number: int, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.number = number

    def execute(self, context: Any) -> list[dict[str, Any]]:  # noqa: ARG002  # Airflow's
        """Ask; the same round gives the same trials, however often it is asked for."""
        with self.hook.asking() as client:
            requests = [dict(one.document) for one in client.optimization_round(self.optimization, self.number)]
        self.show(task_logs.requests_lines(requests))
        return requests


class AskVerificationOperator(_OfOptimization):
    """Asks for trials of the winner and the runner-up, in turn, to see whether the choice holds."""

    def execute(self, context: Any) -> list[dict[str, Any]]:  # noqa: ARG002  # Airflow's
        """Ask."""
        with self.hook.asking() as client:
            requests = [dict(one.document) for one in client.optimization_verification(self.optimization)]
        self.show(task_logs.requests_lines(requests))
        return requests


class TrialOperator(_OfOptimization):
    """Runs one trial of an optimization, and shows what each site spent.

    A short trial is waited for; after ``attached_s`` seconds the task leaves its worker and the triggerer waits. A
    trial that was begun by an earlier try is waited for, not run again. A trial that fails, fails the task, with its
    reason and without another try: the optimization knows already. Killing the task cancels the trial.
    """

    template_fields: Sequence[str] = ("optimization", "query", "request")
    template_fields_renderers: ClassVar = {"request": "json"}
    operator_extra_links = (TrialLink(), QueryLink(), ReportLink())

    def __init__(
        self,
        *,
        request: Any,
        attached_s: float = ATTACHED_S,
        patience_s: float = PATIENCE_S,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.request = request
        self.attached_s = attached_s
        self.patience_s = patience_s
        self.submitting = False
        self.trial: str | None = None

    def execute(self, context: Any) -> dict[str, Any]:  # noqa: ARG002  # Airflow's
        """Submit the trial, or find it again; wait."""
        label, count = self.request["label"], self.request["count"]
        with self.hook.asking() as client:
            self.submitting = True
            begun = self._begun(client)
            self.trial = begun.id
            self.log.info("trial %s of %s over %s windows", begun.id, label, f"{count:,}")
            trial = self._attached(client, begun)
        if trial.over:
            return self._told(trial)
        trigger = TrialTrigger(trial=trial.id, gsdm_conn_id=self.gsdm_conn_id, patience_s=self.patience_s)
        return self.defer(trigger=trigger, method_name="resume")  # type: ignore[no-any-return]

    def _begun(self, client: Client) -> Trial:
        """The trial, begun now or by whoever asked before."""
        return client.submit_trial(
            self.request["specification"],
            self.request["count"],
            optimization=self.optimization,
            key=self.request["key"],
            latency=self.request["latency"],
            wait=False,
        )

    def _attached(self, client: Client, trial: Trial) -> Trial:
        """Wait for a while; a coordinator that goes away meanwhile is left to the trigger, which has patience."""
        from gsdm_grid.client import NoCoordinator

        deadline_s = time.monotonic() + self.attached_s
        while not trial.over and time.monotonic() < deadline_s:
            time.sleep(LOOK_S)
            try:
                trial = client.trial(trial.id)
            except NoCoordinator as error:
                self.log.warning("%s", error)
                break
        return trial

    def resume(self, context: Any, event: dict[str, Any]) -> dict[str, Any]:  # noqa: ARG002  # Airflow's
        """Back from the triggerer."""
        if "problem" in event:
            raise AirflowException(f"trial of {self.request['label']}: {event['problem']}")
        self.trial = str(event["trial"])
        with self.hook.asking() as client:
            trial = client.trial(self.trial)
        return self._told(trial)

    def _told(self, trial: Trial) -> dict[str, Any]:
        self.show(task_logs.trial_lines(trial))
        if trial.result is None:
            raise AirflowFailException(f"trial of {self.request['label']} failed: {trial.error}")
        return {"key": self.request["key"], "trial": trial.id, "cost_s": trial.result.cost_s}

    def on_kill(self) -> None:
        """Cancel the trial: somebody ended the task, maybe before it was told what the trial is called."""
        if not (self.submitting or self.trial):
            return
        with self.hook.asking() as client:
            trial = self.trial or self._begun(client).id
            client.remove_trial(trial)
        self.log.info("cancelled trial %s", trial)


class ChooseOperator(_OfOptimization):
    """Chooses the best plan of those tried, and shows all of them; fails if no trial succeeded or kept the bounds."""

    def execute(self, context: Any) -> str:  # noqa: ARG002  # Airflow's
        """Choose."""
        with self.hook.asking() as client:
            choice = client.optimization_choice(self.optimization)
        self.show(task_logs.choice_lines(choice))
        return str(choice["key"])


class PublishOperator(_OfOptimization):
    """Gives the chosen plan to the queries that asked for it, and waits until they have it; gives their names.

    A running query that cannot be wired anew in mid-stream goes on as it is, and the log says why; a query that is
    named and not there fails the task.
    """

    def execute(self, context: Any) -> list[str]:  # noqa: ARG002  # Airflow's
        """Publish."""
        with self.hook.asking() as client:
            told = client.optimization_publication(self.optimization)
            choice = client.optimization_choice(self.optimization)
            outcomes = {str(one["query"]): self._outcome(client, one) for one in told}
        self.query = self.query or next(iter(outcomes), None)
        self.show([task_logs.chosen_line(choice), *task_logs.publication_lines(outcomes)])
        if refused := [f"{one['query']}: {one['error']}" for one in told if "error" in one]:
            raise AirflowFailException(f"published, but not to all: {'; '.join(refused)}")
        return list(outcomes)

    @staticmethod
    def _outcome(client: Client, told: Document) -> str:
        from gsdm_grid.client import ApiProblem

        if "error" in told:
            return str(told["error"])
        try:
            client.wait(client.operation(told["operation"]))
        except ApiProblem as problem:
            return f"goes on as it is: {problem}"
        return "uses it"


class ReportOperator(_OfOptimization):
    """Shows how an optimization ended, verification included, and where its report is."""

    def execute(self, context: Any) -> str:  # noqa: ARG002  # Airflow's
        """Show it."""
        with self.hook.asking() as client:
            choice = client.optimization_choice(self.optimization)
            place = f"{client.address.url}/optimizations/{self.optimization}"
        self.show([*task_logs.choice_lines(choice), "", f"report with plots: {place}"])
        return place


class DriftOperator(GsdmOperator):
    """Looks for queries whose measured cost drifted from their trial's; gives requests to optimize them anew."""

    template_fields: Sequence[str] = ("threshold",)

    def __init__(self, *, threshold: float | str = 0.25, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.threshold = threshold

    def execute(self, context: Any) -> list[dict[str, Any]]:  # noqa: ARG002  # Airflow's
        """Look."""
        with self.hook.asking() as client:
            found = client.drift(float(self.threshold))
        self.show(task_logs.drift_lines(found))
        return [{"query": one["query"]} for one in found]
