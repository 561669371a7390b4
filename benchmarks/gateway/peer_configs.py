"""Configuration of the peers that take a file: one worker, kept connections, no access log, no buffering."""

from __future__ import annotations

from typing import Any

from benchmarks.gateway.bodies import MODEL
from benchmarks.gateway.gateways import Place

ENVOY_TYPES = "type.googleapis.com/envoy.extensions.filters"


def nginx(place: Place) -> str:
    servers = "\n".join(f"        server 127.0.0.1:{port} max_fails=0;" for port in place.engines)
    folders = "\n".join(f"    {kind}_temp_path {place.folder}/{kind};" for kind in NGINX_TEMPORARY)
    return f"""\
daemon off;
worker_processes 1;
worker_rlimit_nofile 16384;
pid {place.folder}/pid;
error_log stderr crit;
events {{
    worker_connections 8192;
}}
http {{
    access_log off;
    tcp_nodelay on;
    keepalive_timeout 300s;
    keepalive_requests 1000000000;
    client_max_body_size 64m;
    client_body_buffer_size 128k;
{folders}
    upstream engines {{
{servers}
        keepalive 1024;
        keepalive_requests 1000000000;
    }}
    server {{
        listen 127.0.0.1:{place.port} backlog=4096;
        location / {{
            proxy_pass http://engines;
            proxy_http_version 1.1;
            proxy_set_header Connection "";
            proxy_buffering off;
            proxy_read_timeout 600s;
        }}
    }}
}}
"""


NGINX_TEMPORARY = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")


def haproxy(place: Place) -> str:
    servers = "\n".join(
        f"    server engine{i} 127.0.0.1:{port} pool-max-conn 4096" for i, port in enumerate(place.engines)
    )
    return f"""\
global
    nbthread 1
    maxconn 8000
defaults
    mode http
    timeout connect 5s
    timeout client 600s
    timeout server 600s
    option http-keep-alive
    option http-no-delay
listen gateway
    bind 127.0.0.1:{place.port} backlog 4096
    balance roundrobin
    http-reuse always
{servers}
"""


def envoy(place: Place) -> dict[str, Any]:
    manager = {
        "@type": f"{ENVOY_TYPES}.network.http_connection_manager.v3.HttpConnectionManager",
        "stat_prefix": "gateway",
        "codec_type": "HTTP1",
        "generate_request_id": False,
        "route_config": {
            "virtual_hosts": [
                {
                    "name": "engines",
                    "domains": ["*"],
                    "routes": [{"match": {"prefix": "/"}, "route": {"cluster": "engines", "timeout": "0s"}}],
                }
            ]
        },
        "http_filters": [
            {
                "name": "envoy.filters.http.router",
                "typed_config": {"@type": f"{ENVOY_TYPES}.http.router.v3.Router"},
            }
        ],
    }
    listener = {
        "name": "gateway",
        "address": _envoy_address(place.port),
        "filter_chains": [
            {"filters": [{"name": "envoy.filters.network.http_connection_manager", "typed_config": manager}]}
        ],
    }
    no_limits = {"max_connections": 100_000, "max_pending_requests": 100_000, "max_requests": 100_000}
    cluster = {
        "name": "engines",
        "type": "STATIC",
        "connect_timeout": "5s",
        "lb_policy": "ROUND_ROBIN",
        "circuit_breakers": {"thresholds": [no_limits]},
        "load_assignment": {
            "cluster_name": "engines",
            "endpoints": [
                {"lb_endpoints": [{"endpoint": {"address": _envoy_address(port)}} for port in place.engines]}
            ],
        },
    }
    return {"static_resources": {"listeners": [listener], "clusters": [cluster]}}


def _envoy_address(port: int) -> dict[str, Any]:
    return {"socket_address": {"address": "127.0.0.1", "port_value": port}}


def litellm(place: Place) -> dict[str, Any]:
    return {
        "model_list": [
            {
                "model_name": MODEL,
                "litellm_params": {"model": f"openai/{MODEL}", "api_base": f"{url}/v1", "api_key": "none"},
            }
            for url in place.engine_urls
        ],
        "router_settings": {"routing_strategy": "simple-shuffle", "num_retries": 0},
        "litellm_settings": {"telemetry": False, "num_retries": 0},
    }
