"""Networks with the inputs and outputs of smart-turn-v3, made by the tests: they judge by loudness, not by speech."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

LAST = 50
"""Number of the last frames of 10 ms; their loudness decides."""


def quiet_end(
    path: Path, *, name: str = "input_features", bands: int = 80, sigmoid: bool = True, fails: bool = False
) -> Path:
    """Write a network that calls a turn complete if its last half second is quieter than 8 s of it on average.

    With `fails` it loads, but breaks off when it runs.
    """
    nodes = [
        helper.make_node("ReduceMean", [name, "all_axes"], ["whole"], keepdims=0),
        helper.make_node("Slice", [name, "from", "to", "time"], ["end"]),
        helper.make_node("ReduceMean", ["end", "all_axes"], ["last"], keepdims=0),
        helper.make_node("Sub", ["whole", "last"], ["fall"]),
        helper.make_node("Mul", ["fall", "steepness"], ["steep"]),
        helper.make_node("Unsqueeze", ["steep", "batch"], ["scores"]),
        helper.make_node("Gather", ["scores", "ninth"], ["score"])
        if fails
        else helper.make_node("Identity", ["scores"], ["score"]),
        helper.make_node("Sigmoid" if sigmoid else "Identity", ["score"], ["logits"]),
    ]
    constants = {
        "all_axes": np.array([1, 2]),
        "from": np.array([800 - LAST]),
        "to": np.array([800]),
        "time": np.array([2]),
        "batch": np.array([1]),
        "ninth": np.array([8]),
        "steepness": np.array(20.0, dtype=np.float32),
    }
    graph = helper.make_graph(
        nodes,
        "quiet_end",
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["batch_size", bands, 800])],
        [helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["batch_size", 1])],
        [numpy_helper.from_array(value, key) for key, value in constants.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
    onnx.checker.check_model(model)
    path.write_bytes(model.SerializeToString())
    return path
