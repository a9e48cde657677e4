"""What every request goes through: tokens, limits, bodies, repeated requests, pages of lists."""

from api.http.auth import (
    Admin,
    Operator,
    Role,
    Token,
    Tokens,
    Viewer,
    authenticate_websocket,
    bearer_of,
    require,
    subprotocol_of,
)
from api.http.home import PRIVATE_UMASK, protect_home
from api.http.idempotency import IdempotencyMiddleware
from api.http.paging import Limit, PageCursor, page
from api.http.request_bodies import media_type_of, parse_body, parse_body_as, request_body
from api.http.requests import RequestMiddleware
from api.http.time_limits import protocol

__all__ = [
    "PRIVATE_UMASK",
    "Admin",
    "IdempotencyMiddleware",
    "Limit",
    "Operator",
    "PageCursor",
    "RequestMiddleware",
    "Role",
    "Token",
    "Tokens",
    "Viewer",
    "authenticate_websocket",
    "bearer_of",
    "media_type_of",
    "page",
    "parse_body",
    "parse_body_as",
    "protect_home",
    "protocol",
    "request_body",
    "require",
    "subprotocol_of",
]
