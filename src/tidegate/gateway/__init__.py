"""The gateway: OpenAI's API for clients, the dispatcher's orders carried out towards engines."""

from tidegate.gateway.meters import Meters
from tidegate.gateway.names import names_of
from tidegate.gateway.server import Gateway

__all__ = ["Gateway", "Meters", "names_of"]
