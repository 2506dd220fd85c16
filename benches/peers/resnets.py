#!/usr/bin/env python3
"""Times steps of pre-activation ResNets in PyTorch: `resnet18` on 3x32x32, `resnet50` on 3x64x64.

    python3 benches/peers/resnets.py --model resnet18 --batch 64 --mode nonprivate --channels-last

The layers are those of our models of these names: a 3x3 stem, group normalisation with 32 groups,
ReLU. A private step clips per-example gradients of torch.func.vmap, --chunk examples at a time.
Prints one line of JSON.
"""

import argparse
import json
import resource
import statistics
import time

parser = argparse.ArgumentParser(
    description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
)
parser.add_argument("--model", choices=("resnet18", "resnet50"), default="resnet18")
parser.add_argument("--mode", choices=("nonprivate", "dp"), default="dp")
parser.add_argument("--impl", choices=("torchfunc",), default="torchfunc")
parser.add_argument("--batch", type=int, default=64)
parser.add_argument("--threads", type=int, default=2)
parser.add_argument("--steps", type=int, default=10)
parser.add_argument("--warmup", type=int, default=3)
parser.add_argument("--chunk", type=int, default=16)
parser.add_argument("--channels-last", action="store_true")
args = parser.parse_args()

import torch  # noqa: E402
import torch.nn as nn  # noqa: E402
import torch.nn.functional as F  # noqa: E402

torch.set_num_threads(args.threads)
torch.set_num_interop_threads(1)
torch.manual_seed(0)
CLASSES, CLIP, NOISE, RATE = 10, 1.0, 1.0, 0.05
LAYOUT = torch.channels_last if args.channels_last else torch.contiguous_format


def conv(inputs, outputs, kernel, stride=1):
    return nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, bias=False)


class Block(nn.Module):
    def __init__(self, inputs, width, stride, bottleneck):
        super().__init__()
        outputs = 4 * width if bottleneck else width
        if bottleneck:
            convs = [conv(inputs, width, 1), conv(width, width, 3, stride), conv(width, outputs, 1)]
        else:
            convs = [conv(inputs, outputs, 3, stride), conv(outputs, outputs, 3)]
        self.convs = nn.ModuleList(convs)
        self.norms = nn.ModuleList(nn.GroupNorm(32, c.in_channels) for c in convs)
        changes = inputs != outputs or stride != 1
        self.skip = conv(inputs, outputs, 1, stride) if changes else None

    def forward(self, x):
        y = F.relu(self.norms[0](x))
        kept = self.skip(y) if self.skip else x
        y = self.convs[0](y)
        for norm, layer in zip(self.norms[1:], self.convs[1:]):
            y = layer(F.relu(norm(y)))
        return kept + y


def resnet(blocks, bottleneck):
    layers, inputs = [conv(3, 64, 3)], 64
    for group, count in enumerate(blocks):
        width = 64 << group
        for block in range(count):
            stride = 2 if group and not block else 1
            layers.append(Block(inputs, width, stride, bottleneck))
            inputs = 4 * width if bottleneck else width
    head = [nn.GroupNorm(32, inputs), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten()]
    return nn.Sequential(*layers, *head, nn.Linear(inputs, CLASSES))


def peak_mb():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


before = peak_mb()
side = {"resnet18": 32, "resnet50": 64}[args.model]
model = resnet([2, 2, 2, 2], False) if args.model == "resnet18" else resnet([3, 4, 6, 3], True)
model = model.to(memory_format=LAYOUT)
images = torch.randn(4, args.batch, 3, side, side)
labels = torch.randint(CLASSES, (4, args.batch))
batches = [(x.contiguous(memory_format=LAYOUT), y) for x, y in zip(images, labels)]


def plain_step(x, y):
    loss = F.cross_entropy(model(x), y)
    model.zero_grad(set_to_none=True)
    loss.backward()
    with torch.no_grad():
        for p in model.parameters():
            p -= RATE * p.grad
    return loss.item()


parameters = dict(model.named_parameters())


def example_loss(values, x, y):
    out = torch.func.functional_call(model, values, (x[None],))
    return F.cross_entropy(out, y[None])


per_example = torch.func.vmap(torch.func.grad_and_value(example_loss), in_dims=(None, 0, 0))


def private_step(x, y):
    sums = {name: torch.zeros_like(p) for name, p in parameters.items()}
    total = 0.0
    values = {name: p.detach() for name, p in parameters.items()}
    for at in range(0, args.batch, args.chunk):
        grads, losses = per_example(values, x[at : at + args.chunk], y[at : at + args.chunk])
        norms = sum(g.flatten(1).square().sum(1) for g in grads.values()).sqrt()
        factors = (CLIP / norms.clamp(min=CLIP)).detach()
        for name, g in grads.items():
            sums[name] += torch.einsum("b,b...->...", factors, g)
        total += losses.sum().item()
    with torch.no_grad():
        for name, p in parameters.items():
            noisy = sums[name] + NOISE * CLIP * torch.randn_like(p)
            p -= RATE * noisy / args.batch
    return total / args.batch


step = plain_step if args.mode == "nonprivate" else private_step
times, cpu, loss = [], [], float("nan")
for i in range(args.warmup + args.steps):
    start, used = time.perf_counter(), time.process_time()
    loss = step(*batches[i % 4])
    if i >= args.warmup:
        times.append(time.perf_counter() - start)
        cpu.append(time.process_time() - used)
line = {
    "model": args.model,
    "mode": args.mode,
    "batch": args.batch,
    "threads": args.threads,
    "parameters": sum(p.numel() for p in parameters.values()),
    "median_s": statistics.median(times),
    "min_s": min(times),
    "cpu_s": statistics.median(cpu),
    "peak_rss_mb": peak_mb(),
    "rss_before_model_mb": before,
    "loss_end": loss,
    "versions": {"torch": torch.__version__},
}
print(json.dumps(line))
