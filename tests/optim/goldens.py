"""Sequences of PyTorch's optimizers, schedules and averages: writes goldens.json beside this file.

    python3 -m venv /tmp/torch && /tmp/torch/bin/pip install torch
    /tmp/torch/bin/python tests/optim/goldens.py

Everything is computed in f64. Parameters and gradients follow from formulas that the tests repeat.
"""

import json
import math
import pathlib

import torch
from torch.optim import SGD, Adam, AdamW, swa_utils
from torch.optim import lr_scheduler as schedulers

SHAPES = [(3, 2), (2,), (2, 2), (2,)]
STEPS = 40
SHOWN = [1, 2, 10, 40]
POINTS = 100
PEAK = 0.5


def start():
    values = lambda t, n: [math.cos(1.3 * i + t) for i in range(n)]
    return [
        torch.tensor(values(t, math.prod(shape)), dtype=torch.float64).reshape(shape)
        for t, shape in enumerate(SHAPES)
    ]


def gradients(step):
    values = lambda t, n: [(i + 1) * math.sin((i + 1) * (t + 2) * (step + 0.5)) for i in range(n)]
    return [
        torch.tensor(values(t, math.prod(shape)), dtype=torch.float64).reshape(shape)
        for t, shape in enumerate(SHAPES)
    ]


def digits(values, count):
    return [float(f"{value:.{count}g}") for value in values]


def flat(tensors):
    return digits([v for tensor in tensors for v in tensor.detach().flatten().tolist()], 10)


def optimizer_case(text, make, decoupled=0.0, beta=None, scheduler=None):
    """Parameters after some steps. `decoupled` decays weights by hand, before a step, as AdamW."""
    parameters = [torch.nn.Parameter(tensor) for tensor in start()]
    optimizer = make(parameters)
    scheduler = scheduler and scheduler(optimizer)
    shown = []
    for step in range(STEPS):
        for parameter, gradient in zip(parameters, gradients(step)):
            parameter.grad = gradient
            if decoupled and parameter.dim() > 1:
                parameter.data.mul_(1 - optimizer.param_groups[0]["lr"] * decoupled)
        optimizer.step()
        if scheduler:
            scheduler.step()
        if step + 1 in SHOWN:
            shown.append(flat(parameters))
    return {"optimizer": text, "parameters": shown}


def weights_only(parameters, decay):
    """Groups that decay tensors of two or more dimensions only."""
    return [
        {"params": [p for p in parameters if p.dim() > 1], "weight_decay": decay},
        {"params": [p for p in parameters if p.dim() == 1], "weight_decay": 0.0},
    ]


def optimizers():
    one_cycle = lambda optimizer: schedulers.OneCycleLR(optimizer, 0.05, total_steps=STEPS + 1)
    return {
        "sgd": optimizer_case("sgd", lambda p: SGD(p, lr=0.05)),
        "momentum": optimizer_case("momentum", lambda p: SGD(p, lr=0.05, momentum=0.9)),
        "nesterov": optimizer_case(
            "nesterov", lambda p: SGD(p, lr=0.05, momentum=0.8, nesterov=True)
        ),
        "momentum, decay 0.1": optimizer_case(
            "momentum", lambda p: SGD(p, lr=0.05, momentum=0.9), decoupled=0.1
        ),
        "adam": optimizer_case("adam", lambda p: Adam(p, lr=0.05)),
        "adam, other constants": optimizer_case(
            "adam", lambda p: Adam(p, lr=0.05, betas=(0.8, 0.97), eps=1e-2)
        ),
        "adamw": optimizer_case("adamw", lambda p: AdamW(weights_only(p, 0.01), lr=0.05)),
        "adamw, decay 0.3": optimizer_case("adamw", lambda p: AdamW(weights_only(p, 0.3), lr=0.05)),
        "momentum, one cycle": optimizer_case(
            "momentum", lambda p: SGD(p, lr=0.05, momentum=0.9), scheduler=one_cycle
        ),
    }


def schedule_case(make, steps_per_epoch=1, fractional=False, momentum=False, warm_up=0):
    """Rates, and momenta if they are cycled, of 100 steps."""
    optimizer = SGD([torch.nn.Parameter(torch.zeros(1))], lr=PEAK, momentum=0.5)
    if warm_up:
        first = schedulers.LinearLR(optimizer, start_factor=1 / warm_up, total_iters=warm_up - 1)
        scheduler = schedulers.SequentialLR(optimizer, [first, make(optimizer)], [warm_up])
    else:
        scheduler = make(optimizer)
    group, rates, momenta = optimizer.param_groups[0], [], []
    for step in range(1, POINTS + 1):
        rates.append(group["lr"])
        momenta.append(group["momentum"])
        optimizer.step()
        if step == POINTS:
            break
        if fractional:
            scheduler.step(step / steps_per_epoch)
        elif step % steps_per_epoch == 0:
            scheduler.step()
    case = {"steps_per_epoch": steps_per_epoch, "warm_up": warm_up, "rates": digits(rates, 12)}
    return case | ({"momenta": digits(momenta, 12)} if momentum else {})


def schedules():
    s = schedulers
    cyclic = lambda o, **more: s.CyclicLR(o, 0.1 * PEAK, PEAK, step_size_up=12, **more)
    one_cycle = lambda o, **more: s.OneCycleLR(o, PEAK, total_steps=POINTS, **more)
    return {
        "constant": schedule_case(lambda o: s.LambdaLR(o, lambda _: 1.0)),
        "linear": schedule_case(lambda o: s.LinearLR(o, 1.0, 0.0, POINTS)),
        "linear:0.2": schedule_case(lambda o: s.LinearLR(o, 1.0, 0.2, POINTS)),
        "linear, warm-up": schedule_case(lambda o: s.LinearLR(o, 1.0, 0.0, 90), warm_up=10),
        "exponential:0.95": schedule_case(lambda o: s.ExponentialLR(o, 0.95), steps_per_epoch=7),
        "polynomial:2": schedule_case(lambda o: s.PolynomialLR(o, POINTS, 2.0)),
        "step:30:0.1": schedule_case(lambda o: s.StepLR(o, 30, 0.1)),
        "step:3:0.5": schedule_case(lambda o: s.StepLR(o, 3, 0.5), steps_per_epoch=7),
        "step:3:0.5, warm-up": schedule_case(lambda o: s.StepLR(o, 3, 0.5), warm_up=25),
        "multi-step:30,60,90:0.2": schedule_case(lambda o: s.MultiStepLR(o, [30, 60, 90], 0.2)),
        "cosine": schedule_case(lambda o: s.CosineAnnealingLR(o, POINTS)),
        "cosine:0.1": schedule_case(lambda o: s.CosineAnnealingLR(o, POINTS, 0.1 * PEAK)),
        "cosine, warm-up": schedule_case(lambda o: s.CosineAnnealingLR(o, 80), warm_up=20),
        "cosine-restarts:17": schedule_case(lambda o: s.CosineAnnealingWarmRestarts(o, 17)),
        "cosine-restarts:2:2:0.1": schedule_case(
            lambda o: s.CosineAnnealingWarmRestarts(o, 2, 2, 0.1 * PEAK), 7, fractional=True
        ),
        "cyclic:0.1:12": schedule_case(lambda o: cyclic(o, cycle_momentum=False)),
        "cyclic:0.1:12:20:triangular2:momentum=0.8-0.9": schedule_case(
            lambda o: cyclic(o, step_size_down=20, mode="triangular2"), momentum=True
        ),
        "cyclic:0.1:12:exp-range=0.98": schedule_case(
            lambda o: cyclic(o, mode="exp_range", gamma=0.98, cycle_momentum=False)
        ),
        "one-cycle": schedule_case(lambda o: one_cycle(o, cycle_momentum=False)),
        "one-cycle:momentum=0.85-0.95": schedule_case(one_cycle, momentum=True),
        "one-cycle:0.45:linear:divisors=10,100:momentum=0.7-0.9": schedule_case(
            lambda o: one_cycle(
                o,
                pct_start=0.45,
                anneal_strategy="linear",
                div_factor=10,
                final_div_factor=100,
                base_momentum=0.7,
                max_momentum=0.9,
            ),
            momentum=True,
        ),
    }


def plateau():
    """Rates after each of 60 losses that go down, stay, and go down again."""
    losses = [round(1 / (1 + 0.3 * t) + 0.02 * math.sin(t * t), 6) for t in range(60)]
    losses[30] = float("nan")
    optimizer = SGD([torch.nn.Parameter(torch.zeros(1))], lr=PEAK)
    scheduler = schedulers.ReduceLROnPlateau(optimizer, factor=0.5, patience=3, threshold=0.01)
    rates = []
    for loss in losses:
        scheduler.step(loss)
        rates.append(optimizer.param_groups[0]["lr"])
    losses = [None if math.isnan(loss) else loss for loss in losses]
    return {"schedule": "plateau:0.5:3:threshold=0.01", "losses": losses, "rates": rates}


def averages():
    """Averages of the parameters that `gradients` gives, after 1, 2, 10 and 40 steps."""
    network = lambda tensors: torch.nn.ParameterList(torch.nn.Parameter(t) for t in tensors)
    warm = lambda average, value, n: (
        (mu := min(0.6, n / (9 + n))) * average + (1 - mu) * value
    )  # n counts the initial parameters, so that t = n - 1
    cases = {
        "uniform": swa_utils.AveragedModel(network(gradients(0))),
        "ema:0.6": swa_utils.AveragedModel(network(start()), avg_fn=warm),
    }
    cases["ema:0.6"].update_parameters(network(start()))
    shown = {name: [] for name in cases}
    for step in range(STEPS):
        for name, average in cases.items():
            average.update_parameters(network(gradients(step)))
            if step + 1 in SHOWN:
                shown[name].append(flat(average.module.parameters()))
    return shown


def main():
    goldens = {
        "torch": torch.__version__,
        "shown": SHOWN,
        "peak": PEAK,
        "optimizers": optimizers(),
        "schedules": schedules(),
        "plateau": plateau(),
        "averages": averages(),
    }
    lines = json.dumps(goldens, indent=None).replace('}, "', '},\n"').replace('], "', '],\n"')
    pathlib.Path(__file__).with_name("goldens.json").write_text(lines + "\n")


main()
