"""What a GPU's data sheet says.

NVIDIA's data sheets (2022-2026): dense tensor throughput without sparsity, memory bandwidth and size, and
the bandwidth of the link to its neighbours in one direction: NVLink, or PCIe where there is none.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Gpu:
    """All numbers in units of 1e12 (operations or bytes a second), memory and link in 1e9 bytes."""

    bf16: float
    fp8: float
    fp4: float
    """As bf16 where the GPU has no such units and weights are unpacked first."""
    memory_tb_per_s: float
    link_gb_per_s: float
    memory_gb: float
    """As the driver reports it, in 1e9 bytes."""
    generation: str

    def flops_per_s(self, precision: str) -> float:
        """Dense tensor throughput with weights of that precision."""
        by_precision = {"bf16": self.bf16, "int4": self.bf16, "fp8": self.fp8, "fp4": self.fp4}
        return 1e12 * by_precision[precision]


GPUS = {
    "a100": Gpu(312, 312, 312, 2.039, 300, 85.9, "ampere"),
    "l40s": Gpu(362, 733, 362, 0.864, 32, 48.3, "ada"),
    "rtx4090": Gpu(165, 330, 165, 1.008, 32, 25.3, "ada"),
    "h100": Gpu(989, 1979, 989, 3.35, 450, 85.5, "hopper"),
    "h200": Gpu(989, 1979, 989, 4.8, 450, 150.8, "hopper"),
    "b200": Gpu(2250, 4500, 9000, 8.0, 900, 192.3, "blackwell"),
    "b300": Gpu(2250, 4500, 13_500, 8.0, 900, 288.4, "blackwell"),
    "gb200": Gpu(2450, 4900, 9800, 8.0, 900, 198.7, "blackwell"),
    "gb300": Gpu(2450, 4900, 14_700, 8.0, 900, 298.0, "blackwell"),
    "rtxpro6000": Gpu(503, 1007, 2015, 1.597, 64, 102.6, "blackwell"),
}
"""By name."""
