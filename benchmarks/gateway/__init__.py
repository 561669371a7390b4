"""What the gateway costs: requests per second, added latency, CPU per streamed event, memory.

One gateway process is pinned to one core; the load client and the fake engines share another. The same
scenarios run without a gateway in between, so that what the gateway adds is a difference within one run.
"""
