"""The deciding part of Tidegate: plain synchronous Python without I/O, clock, dice or logging.

Two brains live here. ``dispatch.Dispatcher`` decides about requests, ``fleet.FleetController``
decides about replicas. Each has one method, ``on(event, now_s) -> list[Effect]``: facts in, orders
out. Shells (``runtime``, ``gateway``, ``backends``, ``sim``) bring the facts and carry out the orders.
"""
