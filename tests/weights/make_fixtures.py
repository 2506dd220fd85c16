"""Writes the fixtures of this folder: weights and logits of other libraries' networks.

Needs torch, torchvision, timm, safetensors, jax and dm-haiku; run it in this folder. The weights are
random. The networks are small ones of the three families whose public weights the lab reads:

* bit.safetensors, bit.pth, bit_legacy.pth: a pre-activation ResNet of timm (BiT: StdConv2d,
  GroupNorm, fixed stem) with two groups, in three file formats.
* wrn.safetensors: WRN-10-1 of De et al. (2022) in float16, with haiku's names.
* torchvision_basic.pth, torchvision_bottleneck.safetensors: post-activation ResNets of torchvision
  with two channels in the stem, and BatchNorm with random running statistics.
* logits.json: the logits of all of them, for images of several sizes.
* code.pth, injected.pth, legacy_code.pth, module.pth: checkpoints whose pickles name code. Reading
  them with `torch.load(weights_only=False)` would create a file named `executed`.
* twice.pth: a checkpoint whose dictionary has a key twice.
* tiny.pth: a transposed weight and a bias in bfloat16, in an archive without checksums.
* batch_norm.pth: a state dict with BatchNorm under torchvision's names.
"""

import io
import json
import os
import zipfile
from functools import partial

import haiku as hk
import jax
import jax.numpy as jnp
import numpy as np
import torch
from safetensors.numpy import save_file as save_numpy
from safetensors.torch import save_file
from timm.layers import GroupNormAct, StdConv2d
from timm.models.resnetv2 import ResNetV2
from torchvision.models.resnet import BasicBlock, Bottleneck, ResNet


def scattered(shape):
    """Images that the tests make by the same formula, `[batch, channels, height, width]`."""
    i = np.arange(np.prod(shape), dtype=np.int64)
    return ((i * 7919 % 1009) / 504.5 - 1.0).astype(np.float32).reshape(shape)


def bit():
    torch.manual_seed(1)
    network = ResNetV2(
        layers=[2, 1],
        channels=(32, 64),
        num_classes=5,
        stem_chs=8,
        stem_type="fixed",
        norm_layer=partial(GroupNormAct, num_groups=4),
        conv_layer=partial(StdConv2d, eps=1e-8),
    ).eval()
    with torch.no_grad():
        for name, p in network.named_parameters():
            if "norm" in name and name.endswith("weight"):
                p.copy_(1 + 0.3 * torch.randn_like(p))
            elif "norm" in name:
                p.copy_(0.3 * torch.randn_like(p))
            elif "conv" in name:
                # Some channels with a variance near epsilon, so that it matters.
                exponent = torch.empty(p.shape[0], 1, 1, 1).uniform_(-4.0, 0.0)
                p.copy_((0.5 + torch.randn_like(p)) * 10**exponent)
            else:
                p.copy_(0.3 * torch.randn_like(p))
    return network


def published_wrn(images, classes, depth=10, width=1):
    """The network of De et al. (2022): activation, normalisation, convolution."""
    blocks = (depth - 4) // 6

    def norm(name, x):
        return hk.GroupNorm(16, name=name)(x)

    class Conv(hk.Module):
        """A convolution with a standardised weight, a gain and a bias."""

        def __init__(self, channels, kernel, stride, name):
            super().__init__(name)
            self.channels, self.kernel, self.stride = channels, kernel, stride

        def __call__(self, x):
            shape = (self.kernel, self.kernel, x.shape[-1], self.channels)
            random = hk.initializers.RandomNormal
            w = hk.get_parameter("w", shape, init=random(0.2, 0.1))
            gain = hk.get_parameter("gain", shape[-1:], init=random(0.3, 1.0))
            bias = hk.get_parameter("bias", shape[-1:], init=random(0.3))
            mean, variance = w.mean((0, 1, 2)), w.var((0, 1, 2))
            scaled = variance * np.prod(shape[:3])
            w = gain * (w - mean) / jnp.sqrt(jnp.maximum(scaled, 1e-4))
            strides = (self.stride, self.stride)
            y = jax.lax.conv_general_dilated(
                x, w, strides, "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")
            )
            return y + bias

    class WideResNet(hk.Module):
        def __call__(self, x):
            x = Conv(16, 3, 1, "First_conv")(x)
            for group in (1, 2, 3):
                channels, block = 16 * width * 2 ** (group - 1), f"Block_{group}"
                for i in range(blocks):
                    stride = 2 if group > 1 and i == 0 else 1
                    shortcut = x
                    if i == 0:
                        shortcut = norm(f"{block}_skip_norm", jax.nn.relu(x))
                        shortcut = Conv(channels, 1, stride, f"{block}_skip_conv")(shortcut)
                    for j in range(2):
                        x = norm(f"{block}_norm_{i}_{j}", jax.nn.relu(x))
                        name = f"{block}Conv_{i}_{j}"
                        x = Conv(channels, 3, stride if j == 0 else 1, name)(x)
                    x = x + shortcut
            x = norm("Final_norm", jax.nn.relu(x)).mean((1, 2))
            return hk.Linear(classes, name="Softmax")(x)

    return WideResNet(name="wide_res_net")(images)


def wrn():
    network = hk.without_apply_rng(hk.transform(partial(published_wrn, classes=3)))
    params = network.init(jax.random.PRNGKey(1), jnp.zeros((1, 8, 8, 3)))
    rng = np.random.default_rng(1)
    flat = {}
    for module, tensors in params.items():
        for name, value in tensors.items():
            value = np.asarray(value)
            if "norm" in module or module.endswith("Softmax"):
                value = value + 0.3 * rng.standard_normal(value.shape)
            # One channel whose scaled variance is below the guard of 1e-4.
            if module.endswith("Block_2Conv_0_0") and name == "w":
                value = value.copy()
                value[..., 3] *= 5e-3
            flat[f"{module}/{name}"] = value.astype(np.float16)
    split = {}
    for name, value in flat.items():
        module, tensor = name.rsplit("/", 1)
        split.setdefault(module, {})[tensor] = value.astype(np.float32)
    return flat, lambda images: network.apply(split, images.transpose(0, 2, 3, 1))


class SmallResNet(ResNet):
    """A ResNet of torchvision with other numbers of channels than 64, 128, 256, 512."""

    def __init__(self, block, blocks, base, classes):
        torch.nn.Module.__init__(self)
        self._norm_layer = torch.nn.BatchNorm2d
        self.inplanes, self.dilation, self.groups, self.base_width = base, 1, 1, 64
        self.conv1 = torch.nn.Conv2d(3, base, 7, stride=2, padding=3, bias=False)
        self.bn1 = torch.nn.BatchNorm2d(base)
        self.relu = torch.nn.ReLU(inplace=True)
        self.maxpool = torch.nn.MaxPool2d(3, stride=2, padding=1)
        for i, count in enumerate(blocks):
            layer = self._make_layer(block, base * 2**i, count, stride=1 if i == 0 else 2)
            setattr(self, f"layer{i + 1}", layer)
        self.avgpool = torch.nn.AdaptiveAvgPool2d((1, 1))
        self.fc = torch.nn.Linear(base * 8 * block.expansion, classes)


def torchvision(block, blocks):
    torch.manual_seed(3)
    network = SmallResNet(block, blocks, 2, 5).eval()
    with torch.no_grad():
        for norm in network.modules():
            if isinstance(norm, torch.nn.BatchNorm2d):
                # Some channels with a variance near epsilon, so that it matters.
                norm.running_var.copy_(10 ** torch.empty_like(norm.bias).uniform_(-5.0, 0.0))
                norm.running_mean.copy_(0.3 * torch.randn_like(norm.bias))
                norm.weight.copy_(norm.running_var.sqrt() * (2 + torch.randn_like(norm.bias)))
                norm.bias.copy_(0.3 * torch.randn_like(norm.bias))
    return network


class Code:
    """Runs a command when it is unpickled."""

    def __reduce__(self):
        return os.system, ("touch executed",)


class Net(torch.nn.Linear):
    """A module of a class that only this script has."""


def edited(checkpoint, path, edit):
    """Writes the checkpoint with another pickle."""
    with zipfile.ZipFile(io.BytesIO(checkpoint)) as archive, zipfile.ZipFile(path, "w") as out:
        for entry in archive.infolist():
            content = archive.read(entry)
            if entry.filename.endswith("data.pkl"):
                content = edit(content)
            out.writestr(entry.filename, content)


def checkpoint(value):
    buffer = io.BytesIO()
    torch.save(value, buffer)
    return buffer.getvalue()


def main():
    network = bit()
    state = network.state_dict()
    save_file(state, "bit.safetensors")
    torch.save(state, "bit.pth")
    legacy = {"_use_new_zipfile_serialization": False}
    torch.save({"epoch": 3, "state_dict": state}, "bit_legacy.pth", **legacy)
    flat, apply = wrn()
    save_numpy(flat, "wrn.safetensors")
    basic, bottleneck = torchvision(BasicBlock, [2, 1, 1, 1]), torchvision(Bottleneck, [1, 2, 1, 1])
    torch.save({"model": basic.state_dict()}, "torchvision_basic.pth")
    save_file(bottleneck.state_dict(), "torchvision_bottleneck.safetensors")
    names = ["bit", "wrn", "torchvision_basic", "torchvision_bottleneck"]
    logits = {name: {} for name in names}
    for size in [(32, 32), (45, 38)]:
        images = torch.from_numpy(scattered((2, 3, *size)))
        for name, other in [("torchvision_basic", basic), ("torchvision_bottleneck", bottleneck)]:
            with torch.no_grad():
                logits[name][f"{size[0]}x{size[1]}"] = other(images).tolist()
    for size in [(20, 20), (33, 46)]:
        with torch.no_grad():
            images = torch.from_numpy(scattered((2, 3, *size)))
            logits["bit"][f"{size[0]}x{size[1]}"] = network(images).tolist()
    for size in [(8, 8), (9, 12)]:
        images = jnp.asarray(scattered((2, 3, *size)))
        logits["wrn"][f"{size[0]}x{size[1]}"] = np.asarray(apply(images)).tolist()
    with open("logits.json", "w") as file:
        json.dump(logits, file, indent=1)
        file.write("\n")

    tiny = {"weight": torch.arange(6.0).reshape(2, 3)}
    torch.save({**tiny, "code": Code()}, "code.pth")
    torch.save({**tiny, "code": Code()}, "legacy_code.pth", **legacy)
    torch.save(Net(3, 2), "module.pth")
    # A call whose result is dropped from the stack, before the dictionary: nothing of it is left in
    # the unpickled value.
    call = b"cos\nsystem\nX\x0e\x00\x00\x00touch executed\x85R0"
    edited(checkpoint(tiny), "injected.pth", lambda pickled: pickled[:2] + call + pickled[2:])
    # Both keys have the same length, so one can be renamed to the other.
    two = checkpoint({"weight": torch.zeros(2, 3), "waight": torch.ones(2, 3)})
    edited(two, "twice.pth", lambda pickled: pickled.replace(b"waight", b"weight"))
    torch.serialization.set_crc32_options(False)
    weight = torch.arange(6.0).reshape(3, 2).T
    torch.save({"weight": weight, "bias": torch.tensor([0.5, -2.0]).bfloat16()}, "tiny.pth")
    torch.serialization.set_crc32_options(True)
    torch.save(
        {
            "conv1.weight": torch.zeros(4, 3, 3, 3),
            "layer1.0.bn1.weight": torch.ones(4),
            "layer1.0.bn1.bias": torch.zeros(4),
            "layer1.0.bn1.running_mean": torch.zeros(4),
            "layer1.0.bn1.running_var": torch.ones(4),
            "layer1.0.bn1.num_batches_tracked": torch.tensor(7),
        },
        "batch_norm.pth",
    )
    assert not os.path.exists("executed")


if __name__ == "__main__":
    main()
