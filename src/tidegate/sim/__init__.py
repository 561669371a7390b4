"""The two brains under virtual time: the same objects that serve, in a world that is computed.

``world.simulate`` is the whole interface. Clients come from a trace, engines are those of
``tidegate.engine``, cold starts, scrapes and faults are drawn from one seed. Nothing here decides anything:
every order comes from the ``Dispatcher`` and the ``FleetController``.
"""
