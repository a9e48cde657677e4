"""Airflow is imported as a library here: it must not set up its home, its logging or a database in this process."""

import os
import tempfile

os.environ["_AIRFLOW__AS_LIBRARY"] = "1"
os.environ.setdefault("AIRFLOW_HOME", tempfile.mkdtemp(prefix="gsdm-airflow-"))
