"""What the client reads of the coordinator's documents is what the coordinator describes."""

from dataclasses import fields

import pytest

from api import schemas
from api.schemas import optimization_schemas
from gsdm_grid import client

OF_THE_CLIENT = {"document", "etag", "token"}
"""Members of the client's objects that are in no document, or in some only."""


@pytest.mark.parametrize(
    ("read", "described"),
    [
        (client.Query, schemas.QueryDocument),
        (client.Operation, schemas.OperationDocument),
        (client.Token, schemas.TokenDocument),
        (client.Bundle, schemas.BundleDocument),
        (client.Trial, schemas.TrialDocument),
        (client.RecordedSegment, schemas.SegmentDocument),
        (client.TrialRequest, optimization_schemas.TrialRequestDocument),
        (client.Optimization, schemas.OptimizationDocument),
    ],
)
def test_the_client_reads_only_members_that_are_described(read, described):
    members = {field.name for field in fields(read)} - OF_THE_CLIENT
    assert members <= set(described.model_fields)
