"""Other systems' scaling laws by name, with their own constants: for comparison, and for migration.

Each file names its source. Inside Tidegate every law is kinder than at home: the controller's rules hold for it
too (a first replica for whoever waits, no shrinking on missing data), and its victims are drained.
"""

from __future__ import annotations

from tidegate.core.fleet.scaling.policies.paced import LawFactory
from tidegate.core.fleet.scaling.policies.rivals.aibrix_apa import AibrixConstants, aibrix_apa
from tidegate.core.fleet.scaling.policies.rivals.baseten import BasetenConstants, baseten
from tidegate.core.fleet.scaling.policies.rivals.dynamo_easy import DynamoEasyConstants, dynamo_easy
from tidegate.core.fleet.scaling.policies.rivals.dynamo_sla import DynamoSlaConstants, dynamo_sla
from tidegate.core.fleet.scaling.policies.rivals.fireworks import FireworksConstants, fireworks
from tidegate.core.fleet.scaling.policies.rivals.hpa import HpaConstants, hpa
from tidegate.core.fleet.scaling.policies.rivals.keda_http import KedaHttpConstants, keda_http
from tidegate.core.fleet.scaling.policies.rivals.kpa import KpaConstants, kpa
from tidegate.core.fleet.scaling.policies.rivals.ray import RayConstants, ray
from tidegate.core.fleet.scaling.policies.rivals.sky import SkyConstants, sky
from tidegate.core.fleet.scaling.policies.rivals.slo_keda import slo_keda
from tidegate.core.fleet.scaling.policies.rivals.token_keda import TokenKedaConstants, token_keda
from tidegate.core.fleet.scaling.policies.rivals.wva1 import Wva1Constants, wva1
from tidegate.core.fleet.scaling.policies.rivals.wva2 import Wva2Constants, wva2
from tidegate.core.scaling_settings import ScalingPolicy, SloKeda

RIVALS: dict[ScalingPolicy, tuple[LawFactory, type]] = {
    ScalingPolicy.SLO_KEDA: (slo_keda, SloKeda),
    ScalingPolicy.TOKEN_KEDA: (token_keda, TokenKedaConstants),
    ScalingPolicy.KEDA_HTTP: (keda_http, KedaHttpConstants),
    ScalingPolicy.KPA: (kpa, KpaConstants),
    ScalingPolicy.HPA: (hpa, HpaConstants),
    ScalingPolicy.AIBRIX_APA: (aibrix_apa, AibrixConstants),
    ScalingPolicy.RAY: (ray, RayConstants),
    ScalingPolicy.SKY: (sky, SkyConstants),
    ScalingPolicy.WVA1: (wva1, Wva1Constants),
    ScalingPolicy.WVA2: (wva2, Wva2Constants),
    ScalingPolicy.DYNAMO_SLA: (dynamo_sla, DynamoSlaConstants),
    ScalingPolicy.DYNAMO_EASY: (dynamo_easy, DynamoEasyConstants),
    ScalingPolicy.BASETEN: (baseten, BasetenConstants),
    ScalingPolicy.FIREWORKS: (fireworks, FireworksConstants),
}
"""How each is made, and the dataclass of its constants."""
