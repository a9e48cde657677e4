"""Hosts: where working nodes live. The only room of the engine that knows Ray and Spark.

One file per kind: threads of this process, processes of this machine, Ray actors, Spark tasks. All run the same loop
(`gsdm_grid.engine.runner`).
"""

from gsdm_grid.hosts.base import HostGroup, HostPool, HostRequest
from gsdm_grid.hosts.executors import Claim, Executors, Observe
from gsdm_grid.hosts.kept_process import KeptProcess
from gsdm_grid.hosts.leases import CPU, clusters_machines
from gsdm_grid.hosts.pool_process import ForwardingPool, PoolProcess
from gsdm_grid.hosts.process import ProcessPool
from gsdm_grid.hosts.ray import RayPool
from gsdm_grid.hosts.spark import ON_RAY, SparkPool
from gsdm_grid.hosts.spark_daemon import LOOPBACK, MasterRole, SparkDaemon, WorkerRole
from gsdm_grid.hosts.thread import ThreadPool

__all__ = [
    "CPU",
    "LOOPBACK",
    "ON_RAY",
    "Claim",
    "Executors",
    "ForwardingPool",
    "HostGroup",
    "HostPool",
    "HostRequest",
    "KeptProcess",
    "MasterRole",
    "Observe",
    "PoolProcess",
    "ProcessPool",
    "RayPool",
    "SparkDaemon",
    "SparkPool",
    "ThreadPool",
    "WorkerRole",
    "clusters_machines",
]
