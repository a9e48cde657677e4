"""Starting Spark's Java process so that people do not see what it says about itself.

Java and Spark print lines while they start, before any log level of a session counts: which modules and which profile
are used, what the machine is called. They tell a person who wrote a query nothing. They are left out here; all else,
such as errors and what functions print on Spark's workers, goes where standard error went when Spark was started.
"""

from __future__ import annotations

import contextlib
import os
import re
import threading
from collections.abc import Mapping

_CHATTER = re.compile(
    rb"WARNING: Using incubator modules"
    rb"|Using Spark's default log4j profile"
    rb"|Setting (default|Spark) log level to"
    rb"|To adjust logging level use"
    rb"|\d\d/\d\d/\d\d \d\d:\d\d:\d\d (TRACE|DEBUG|INFO|WARN) "
)


def is_chatter(line: bytes) -> bool:
    """Whether a line is one that Java or Spark prints about its start, or a log line below an error.

    >>> is_chatter(b"26/01/02 03:04:05 WARN Utils: Your hostname, vm, resolves to a loopback address")
    True
    >>> is_chatter(b"26/01/02 03:04:05 ERROR SparkContext: Error initializing"), is_chatter(b"printed by a function")
    (False, False)
    """
    return _CHATTER.match(line) is not None


def start_java(settings: Mapping[str, str]) -> None:
    """Start the Java process with these settings on its command line, unless this process has one."""
    from pyspark import SparkConf, SparkContext
    from pyspark.java_gateway import launch_gateway

    if SparkContext._gateway is not None:
        return
    conf = SparkConf()
    for name, value in settings.items():
        conf.set(name, value)
    reading, writing = os.pipe()
    shown = os.dup(2)  # where standard error goes now: it may be somewhere else later
    threading.Thread(target=_pass_on, args=(reading, shown), name="gsdm-spark-screen", daemon=True).start()
    try:
        gateway = launch_gateway(conf, {"stderr": writing})
    finally:
        os.close(writing)
    SparkContext._ensure_initialized(gateway=gateway, conf=conf)


def _pass_on(reading: int, shown: int) -> None:
    """Lines without chatter from one file to another, until nobody writes any more."""
    with open(reading, "rb") as lines, open(shown, "wb", buffering=0) as screen, contextlib.suppress(OSError):
        for line in lines:
            if not is_chatter(line):
                screen.write(line)
