import json
import logging

from api.logs import JsonLines, PlainLines

SECRET = "gsdm_0123456789ab_" + "A-_z" * 10 + "xyz"


def line(name, message, *args, **extra):
    record = logging.makeLogRecord({"name": name, "msg": message, "args": args, **extra})
    return json.loads(JsonLines().format(record))


def test_the_web_servers_lines_have_no_query_strings():
    told = line(
        "uvicorn.error", '%s - "WebSocket %s" [accepted]', "10.0.0.1:5", "/v1/queries/q/results/ws?token=abc&from=3"
    )
    assert told["message"] == '10.0.0.1:5 - "WebSocket /v1/queries/q/results/ws" [accepted]'


def test_no_line_has_a_tokens_secret():
    told = line("gsdm.api", f"refused {SECRET}", place={"token": SECRET})
    assert SECRET not in json.dumps(told)
    assert told["message"] == "refused gsdm_0123456789ab_…"


def test_people_see_a_line_without_secrets_that_says_where_there_is_more():
    record = logging.makeLogRecord({"name": "gsdm.api", "levelname": "ERROR", "msg": f"refused {SECRET}", "args": ()})
    assert (
        PlainLines("coordinator.log").format(record) == "error: refused gsdm_0123456789ab_… (more in coordinator.log)"
    )
