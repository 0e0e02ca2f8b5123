"""schemathesis sends what the OpenAPI allows, and much that it does not: nothing may end in a 5xx."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from hypothesis.errors import Unsatisfiable

from service.test_api import Api

# What a store that cannot keep up is answered with would be a 503; on this store nothing may be.
_CHECKS = [schemathesis.checks.not_a_server_error]


@pytest.mark.slow
@pytest.mark.parametrize("mode", [schemathesis.GenerationMode.POSITIVE, schemathesis.GenerationMode.NEGATIVE])
def test_nothing_ends_in_a_5xx(tmp_path: Path, mode: schemathesis.GenerationMode) -> None:
    api = Api(tmp_path)
    headers = {"Host": "127.0.0.1", "Authorization": f"Bearer {api.operator}"}
    schema = schemathesis.openapi.from_asgi("/api/openapi.json", api.app, headers={"Host": "127.0.0.1"})
    tried = set()
    for found in schema.get_all_operations():
        operation = found.ok()
        if operation.path == "/api/v1/events":  # it never ends
            continue

        @given(case=operation.as_strategy(generation_mode=mode))
        @settings(max_examples=25, deadline=None, database=None, suppress_health_check=list(HealthCheck))
        def attack(case: schemathesis.Case) -> None:
            if "job_id" in (case.path_parameters or {}):
                case.path_parameters["job_id"] = api.job.rpartition("/")[2]  # most of what can go wrong is beyond it
            answer = case.call(headers=headers)
            case.validate_response(answer, checks=_CHECKS)
            assert answer.status_code != 401 or case.operation.path == "/api/v1/login"

        with suppress(Unsatisfiable):  # where nothing can be given, nothing wrong can be
            attack()
        tried.add((operation.method, operation.path))
    assert len(tried) >= 20
