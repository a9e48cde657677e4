"""What people register: uploaded code, packages, streams, types; and which code and files they may name."""

from api.registry.allowed_code import calls_code, check_specification, check_stream
from api.registry.archives import MEDIA_TYPES, PYTHON, ZIP
from api.registry.bundles import NAME, Bundles
from api.registry.packages import Packages
from api.registry.registered_streams import (
    SourceOrSink,
    StreamDocuments,
    delete_stream,
    get_stream,
    list_streams,
    post_stream,
)
from api.registry.stream_types import Uses, delete_type, load_types, post_type, posted
from api.registry.trial_imports import in_processes

__all__ = [
    "MEDIA_TYPES",
    "NAME",
    "PYTHON",
    "ZIP",
    "Bundles",
    "Packages",
    "SourceOrSink",
    "StreamDocuments",
    "Uses",
    "calls_code",
    "check_specification",
    "check_stream",
    "delete_stream",
    "delete_type",
    "get_stream",
    "in_processes",
    "list_streams",
    "load_types",
    "post_stream",
    "post_type",
    "posted",
]
