"""Hosts: where working nodes live. The only room of the engine that knows Ray and Spark.

One file per kind: threads of this process, processes of this machine, Ray actors, Spark tasks. All run the same loop
(`gsdm_grid.engine.runner`).
"""

from gsdm_grid.hosts.base import HostGroup, HostPool, HostRequest
from gsdm_grid.hosts.process import ProcessPool
from gsdm_grid.hosts.ray import RayPool
from gsdm_grid.hosts.spark import SparkPool
from gsdm_grid.hosts.thread import ThreadPool

__all__ = ["HostGroup", "HostPool", "HostRequest", "ProcessPool", "RayPool", "SparkPool", "ThreadPool"]
