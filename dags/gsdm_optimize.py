"""Finds the best parallel plan of a query by trial runs, and gives it to the queries that asked for one.

Record a segment → rounds of trials, each following from those before → choose → run winner and runner-up again →
publish → report. A round without trials is skipped, and so are those behind it. A trial that fails does not stop the
others. Name a `query` of the coordinator, or a `function` with its `inputs`.
"""

from datetime import timedelta

from airflow.sdk import DAG, Param, TaskGroup, TriggerRule

from gsdm_grid.airflow import operators as gsdm

ROUNDS = 6  # no search asks for more
RADIO = {"type": "Radio", "interface": "synthetic_radio", "options": {"window": 1024}}
PARAMS = {
    "query": Param(None, type=["null", "string"], description="A query to optimize; it gets the plan."),
    "function": Param("fft3", type=["null", "string"], description="Without a query: the function to run."),
    "params": Param({}, type=["null", "object"], description="The function's parameters."),
    "inputs": Param([RADIO], type=["null", "array"], description="The function's input streams, or names of sources."),
    "count": Param(1000, type="integer", minimum=1, description="Windows to record, and to run in the longest trials."),
    "pool": Param(None, type=["null", "string"], description="Pool of hosts; nothing: what the coordinator has."),
    "criteria": Param({"minimize": "cost_s"}, type="object", description="What makes a plan better."),
    "search": Param({"method": "heuristic"}, type="object", description="How to search: docs/optimizer.md."),
    "publish_to": Param([], type="array", description="More queries that shall use the plan."),
}
REQUEST = {name: f"{{{{ params.{name} }}}}" for name in PARAMS} | {"segment": "{{ ti.xcom_pull('record_segment') }}"}
STEP = {"optimization": "{{ ti.xcom_pull('start') }}", "query": "{{ params.query }}"}
TRIAL = {"task_id": "trial", "pool": gsdm.POOL, "map_index_template": gsdm.LABEL, **STEP}

with DAG(
    "gsdm_optimize",
    params=PARAMS,
    schedule=None,
    is_paused_upon_creation=False,
    render_template_as_native_obj=True,
    default_args={"retries": 3, "retry_delay": timedelta(seconds=5)},
    tags=["gsdm"],
    doc_md=__doc__,
):
    record = gsdm.RecordSegmentOperator(task_id="record_segment", request=REQUEST)
    last = gsdm.StartOptimizationOperator(task_id="start", request=REQUEST, trigger_rule=TriggerRule.NONE_FAILED)
    record >> last
    for number in range(ROUNDS):
        with TaskGroup(f"round_{number}"):
            rule = TriggerRule.ALL_DONE_MIN_ONE_SUCCESS
            ask = gsdm.AskRoundOperator(task_id="ask", number=number, trigger_rule=rule, **STEP)
            last >> ask
            last = gsdm.TrialOperator.partial(**TRIAL).expand(request=ask.output)
    choose = gsdm.ChooseOperator(task_id="choose", trigger_rule=TriggerRule.ALL_DONE, **STEP)
    with TaskGroup("verify"):
        ask = gsdm.AskVerificationOperator(task_id="ask", **STEP)
        again = gsdm.TrialOperator.partial(**TRIAL).expand(request=ask.output)
    publish = gsdm.PublishOperator(task_id="publish", trigger_rule=TriggerRule.NONE_FAILED, **STEP)
    report = gsdm.ReportOperator(task_id="report", **STEP)
    last >> choose >> ask >> again >> publish >> report
