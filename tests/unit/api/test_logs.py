import json
import logging

from api.logs import JsonLines

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
