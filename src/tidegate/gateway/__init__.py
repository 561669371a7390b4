"""The gateway: OpenAI's API for clients, the dispatcher's orders carried out towards engines."""

from tidegate.gateway.meters import Meters
from tidegate.gateway.names import Named, names_of
from tidegate.gateway.server import Gateway

__all__ = ["Gateway", "Meters", "Named", "names_of"]
