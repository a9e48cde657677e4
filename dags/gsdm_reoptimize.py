"""Looks every day for queries whose measured cost drifted from that of their trial, and has each optimized anew.

Drift comes from other data, other hardware or other load. Nothing happens to queries that still cost what their plan
was chosen for. Switch the DAG on to have this done.
"""

from airflow.providers.standard.operators.trigger_dagrun import TriggerDagRunOperator
from airflow.sdk import DAG, Param

from gsdm_grid.airflow import operators as gsdm

with DAG(
    "gsdm_reoptimize",
    params={"threshold": Param(0.25, type="number", minimum=0, description="Drift from which on to optimize anew.")},
    schedule="@daily",
    catchup=False,
    render_template_as_native_obj=True,
    default_args={"retries": 3},
    tags=["gsdm"],
    doc_md=__doc__,
):
    drifted = gsdm.DriftOperator(task_id="drifted", threshold="{{ params.threshold }}")
    TriggerDagRunOperator.partial(
        task_id="optimize",
        trigger_dag_id="gsdm_optimize",
        trigger_run_id="{{ run_id }}__{{ ti.map_index }}",
        skip_when_already_exists=True,
    ).expand(conf=drifted.output)
