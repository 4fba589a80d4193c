# SPDX-License-Identifier: Apache-2.0
"""Beside the stand-in for PyTorch there is no package safetensors: one that is installed would need PyTorch itself."""
raise ImportError("the stand-in for PyTorch has no safetensors")
