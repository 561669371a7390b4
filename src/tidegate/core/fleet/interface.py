"""All that the brain of the fleet hears, and all that it says."""

from __future__ import annotations

from tidegate.core.effects import (
    Decision,
    Demote,
    Launch,
    LoadAdapter,
    Pooled,
    Prefetch,
    Promote,
    PublishRoutes,
    Shadowed,
    Sleep,
    Stop,
    UnloadAdapter,
    Wake,
    WakeAt,
)
from tidegate.core.events import (
    AdapterSeen,
    DemandReported,
    EngineReported,
    FleetConfigured,
    KnowledgeRestored,
    ReplicaAdopted,
    ReplicaSeen,
    ScaledByHand,
    SignalsReported,
    SpendingRestored,
    Tick,
    WeightsSeen,
)

FleetEvent = (
    FleetConfigured
    | DemandReported
    | ReplicaSeen
    | ReplicaAdopted
    | AdapterSeen
    | EngineReported
    | WeightsSeen
    | SignalsReported
    | SpendingRestored
    | KnowledgeRestored
    | ScaledByHand
    | Tick
)
FleetEffect = (
    Launch
    | Promote
    | Demote
    | Sleep
    | Wake
    | Stop
    | LoadAdapter
    | UnloadAdapter
    | Prefetch
    | PublishRoutes
    | Pooled
    | Decision
    | Shadowed
    | WakeAt
)
