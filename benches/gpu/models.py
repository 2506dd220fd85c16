"""The models that are timed on GPUs, as lists of layers that each library's script builds.

They are those of `epsilab bench`: same layers, same number of parameters. Images have the shape
[channels, height, width].

    ("conv", from, to, kernel, stride, padding, bias, standardised)
    ("linear", from, to)    ("norm", groups, channels)    ("pool", kernel, stride)
    ("relu",)    ("tanh",)    ("flatten",)    ("mean",)    ("residual", layers, shortcut)
"""

import argparse
import json
import statistics
import time

STEPS_IN_A_ROW = 5  # Between two looks at the clock, as `epsilab bench` does it.


def papernot_cnn():
    return [
        ("conv", 1, 16, 8, 2, 3, True, False),
        ("relu",),
        ("pool", 2, 1),
        ("conv", 16, 32, 4, 2, 0, True, False),
        ("relu",),
        ("pool", 2, 1),
        ("flatten",),
        ("linear", 512, 32),
        ("relu",),
        ("linear", 32, 10),
    ]


def simple_vgg():
    layers, last = [], 3
    for channels in (32, 64, 128):
        for _ in range(2):
            layers += [("conv", last, channels, 3, 1, 1, True, False), ("tanh",)]
            last = channels
        layers.append(("pool", 2, 2))
    return [*layers, ("flatten",), ("linear", 2048, 128), ("tanh",), ("linear", 128, 10)]


def residual_network(stem, widths, blocks, groups, standardised):
    def conv(start, end, kernel, stride):
        return ("conv", start, end, kernel, stride, kernel // 2, False, standardised)

    layers, last = [conv(3, stem, 3, 1)], stem
    for place, width in enumerate(widths):
        for block in range(blocks):
            stride = 2 if place > 0 and block == 0 else 1
            before = [("norm", groups, last), ("relu",)]
            body = [
                conv(last, width, 3, stride),
                ("norm", groups, width),
                ("relu",),
                conv(width, width, 3, 1),
            ]
            if last == width and stride == 1:
                layers.append(("residual", before + body, []))
            else:
                layers += [*before, ("residual", body, [conv(last, width, 1, stride)])]
            last = width
    return [*layers, ("norm", groups, last), ("relu",), ("mean",), ("linear", last, 10)]


# Name -> (layers, shape of one example).
MODELS = {
    "papernot_cnn": (papernot_cnn(), (1, 28, 28)),
    "simple_vgg": (simple_vgg(), (3, 32, 32)),
    "wide_resnet_16_4": (residual_network(16, (64, 128, 256), 2, 16, True), (3, 32, 32)),
    "resnet18": (residual_network(64, (64, 128, 256, 512), 2, 32, False), (3, 32, 32)),
}


def arguments(description):
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--model", choices=MODELS, required=True)
    parser.add_argument("--batch", type=int, required=True)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--warmup", type=int, default=5)
    parser.add_argument(
        "--seconds", type=float, default=60, help="start no further variant after this time"
    )
    parser.add_argument("--device", default="cuda", help="cuda or cpu")
    parser.add_argument("--lr", type=float, default=0.05)
    return parser.parse_args()


def measure(args, ways, about, wait):
    """Times variants and prints a JSON line for each.

    A variant is (name, private, prepare). prepare() returns step, and step() returns the loss.
    """
    begun = time.perf_counter()
    for name, private, prepare in ways:
        line = {"model": args.model, "batch": args.batch, "name": name, "private": private, **about}
        try:
            if time.perf_counter() - begun > args.seconds:
                raise TimeoutError(
                    f"not started: the time limit of {args.seconds:.0f} s was reached"
                )
            line |= timed(args, prepare(), wait)
        except Exception as error:  # Out of memory, unknown layer: continue.
            line["error"] = f"{type(error).__name__}: {error}".splitlines()[0][:160]
        print(json.dumps(line), flush=True)


def timed(args, step, wait):
    for _ in range(args.warmup):
        step()
    seconds, left = [], args.steps
    while left > 0:
        steps = min(STEPS_IN_A_ROW, left)
        wait()
        start = time.perf_counter()
        for _ in range(steps):
            loss = step()
        wait()
        seconds.append((time.perf_counter() - start) / steps)
        left -= steps
    return {"median_s": statistics.median(seconds), "min_s": min(seconds), "loss": float(loss)}
