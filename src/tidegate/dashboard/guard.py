"""Who may read the admin pages: a browser that was pointed at them, and nobody through it.

The pages carry no password, so a page on the open web must not be able to read them by naming this
machine in its own domain (DNS rebinding), by embedding them, or by fetching them from elsewhere. But for
the paths that are named as such, only reading is possible at all.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection
from urllib.parse import urlsplit

from aiohttp import web
from aiohttp.typedefs import Middleware

from tidegate.config.hosts import Hosts

HEADERS = {
    "Content-Security-Policy": "; ".join(
        (
            "default-src 'none'",
            "script-src 'self'",
            "style-src 'self'",
            "img-src 'self'",
            "connect-src 'self'",
            "base-uri 'none'",
            "form-action 'none'",
            "frame-ancestors 'none'",
            # The browser itself refuses to make markup from a string.
            "require-trusted-types-for 'script'",
            "trusted-types 'none'",
        )
    ),
    "X-Frame-Options": "DENY",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
    "Server": "tidegate",
}


def guard(hosts: Hosts, writable: Collection[str] = ()) -> Middleware:
    """A middleware that answers for the pages when they may not be read."""

    @web.middleware
    async def check(
        request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
    ) -> web.StreamResponse:
        refused = refusal(hosts, request, writable)
        return refused if refused is not None else await handler(request)

    return check


def refusal(hosts: Hosts, request: web.Request, writable: Collection[str] = ()) -> web.Response | None:
    """Why this request is not answered; None when it is."""
    names = request.headers.getall("Host", [])
    if len(names) != 1 or not hosts.allow(names[0]) or not request.raw_path.startswith("/"):
        return web.Response(status=421, text="This address is not known here by that name.\n")
    is_change = request.method == "POST" and request.path in writable
    if request.method not in ("GET", "HEAD") and not is_change:
        return web.Response(
            status=405, text="These pages can only be read.\n", headers={"Allow": "GET, HEAD"}
        )
    origin = request.headers.get("Origin")
    if origin is not None and urlsplit(origin).netloc.lower() != names[0].lower():
        return web.Response(status=403, text="These pages are not for other sites.\n")
    # A browser says where a fetch comes from; following a link to a page from elsewhere is fine.
    elsewhere = request.headers.get("Sec-Fetch-Site") in ("cross-site", "same-site")
    if elsewhere and (is_change or request.headers.get("Sec-Fetch-Mode") != "navigate"):
        return web.Response(status=403, text="These pages are not for other sites.\n")
    return None


async def harden(_request: web.Request, response: web.StreamResponse) -> None:
    """Put the protective headers on a response that is about to be sent."""
    for name, value in HEADERS.items():
        response.headers[name] = value
