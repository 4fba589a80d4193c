# SPDX-License-Identifier: Apache-2.0
# A PyTorch state_dict to safetensors and back: convert_weights.py model.pth model.safetensors, or
# the other way round. Needs PyTorch 1.13 or newer and nothing else; runs no pickled code.
import ctypes, itertools, json, math, struct, sys, torch  # noqa: E401

KINDS = {"F64": torch.float64, "F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16, "I64": torch.int64,
         "I32": torch.int32, "U8": torch.uint8}
source, target = sys.argv[1:]
if source.endswith(".safetensors"):
    data = bytearray(open(source, "rb").read())
    at = 8 + struct.unpack_from("<Q", data)[0]
    head = {n: t for n, t in json.loads(data[8:at]).items() if n != "__metadata__"}
    torch.save({n: torch.frombuffer(data, dtype=KINDS[t["dtype"]], offset=at + t["data_offsets"][0], count=math.prod(
        t["shape"])).clone().reshape(t["shape"]) for n, t in head.items()}, target)
else:
    state = {n: t.contiguous() for n, t in torch.load(source, map_location="cpu", weights_only=True).items()}
    names = sorted(state, key=lambda n: -state[n].element_size())  # so that all are aligned
    parts = [ctypes.string_at(state[n].data_ptr(), state[n].numel() * state[n].element_size()) for n in names]
    head = {n: {"dtype": next(k for k in KINDS if KINDS[k] == state[n].dtype), "shape": list(state[n].shape),
                "data_offsets": [end - len(p), end]} for n, p, end in zip(names, parts, itertools.accumulate(map(len, parts)))}
    text = json.dumps({"__metadata__": {"format": "pt"}, **head}).encode()
    open(target, "wb").write(struct.pack("<Q", len(text) + -len(text) % 8) + text + b" " * (-len(text) % 8) + b"".join(parts))
