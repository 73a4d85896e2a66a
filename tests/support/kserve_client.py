"""KServe's client, which cannot be in a process with Triton's: both declare the messages of the protocol.

python kserve_client.py rest|grpc ADDRESS GRPC_ADDRESS
"""

from __future__ import annotations

import asyncio
import sys

import numpy as np


async def ask_rest(address: str) -> None:
    """Both of its protocols."""
    second = kserve.InferenceRESTClient(kserve.RESTConfig(protocol="v2", timeout=60))
    assert await second.is_server_live(address)
    assert await second.is_server_ready(address)
    assert await second.is_model_ready(address, "half_plus_two")
    for is_binary in (False, True):
        tensor = kserve.InferInput("x", [2], "FP32")
        tensor.set_data_from_numpy(np.float32([1, 2.5]), binary_data=is_binary)
        request = kserve.InferRequest("half_plus_two", [tensor], request_id="7")
        answer = await second.infer(address, request, model_name="half_plus_two")
        assert (answer.id, answer.model_name) == ("7", "half_plus_two")
        assert answer.outputs[0].as_numpy().tolist() == [2.5, 3.25]
    first = kserve.InferenceRESTClient(kserve.RESTConfig(protocol="v1", timeout=60))
    assert await first.is_model_ready(address, "half_plus_two")
    answer = await first.infer(address, {"instances": [1, 2.5]}, model_name="half_plus_two")
    assert answer == {"predictions": [2.5, 3.25]}


async def ask_grpc(address: str) -> None:
    """As over HTTP."""
    client = kserve.InferenceGRPCClient(address)
    assert await client.is_server_live()
    assert await client.is_server_ready()
    assert await client.is_model_ready("half_plus_two")
    for is_binary in (False, True):
        tensor = kserve.InferInput("x", [2], "FP32")
        tensor.set_data_from_numpy(np.float32([1, 2.5]), binary_data=is_binary)
        answer = await client.infer(kserve.InferRequest("half_plus_two", [tensor], request_id="7"))
        assert answer.outputs[0].as_numpy().tolist() == [2.5, 3.25]
    await client.close()


if __name__ == "__main__":
    import kserve

    if sys.argv[1] == "rest":
        asyncio.run(ask_rest(f"http://{sys.argv[2]}"))
    else:
        asyncio.run(ask_grpc(sys.argv[3]))
