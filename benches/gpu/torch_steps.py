#!/usr/bin/env python3
"""Times training steps of PyTorch on a GPU, private ones by Opacus and torch.func.

Prints one JSON line per variant.

    python3 torch_steps.py --model simple_vgg --batch 4096
"""

import warnings

import models

args = models.arguments(__doc__)
warnings.filterwarnings("ignore")

import torch  # noqa: E402
import torch.nn.functional as F  # noqa: E402
from torch import nn  # noqa: E402

CLIP, NOISE = 1.0, 1.0
GUARD = 1e-4  # Of the weight standardisation.
LAYERS, SHAPE = models.MODELS[args.model]
DEVICE = torch.device(args.device)
torch.manual_seed(1)


class Standardised(nn.Conv2d):
    def forward(self, x):
        deviation, mean = torch.var_mean(self.weight, dim=(1, 2, 3), keepdim=True, unbiased=False)
        weight = (self.weight - mean) * torch.rsqrt(deviation * self.weight[0].numel() + GUARD)
        return F.conv2d(x, weight, None, self.stride, self.padding)


def standardised_gradients(layer, activations, gradients):
    """Per-example gradients of a weight-standardised convolution, for Opacus.

    Without this rule Opacus would use a slow fallback. The gradient by the standardised weight is
    propagated back to the weight.
    """
    x, count = activations[0], len(activations[0])
    patches = F.unfold(x, layer.kernel_size, padding=layer.padding, stride=layer.stride)
    each = torch.einsum("noq,npq->nop", gradients.reshape(count, gradients.shape[1], -1), patches)
    weight = layer.weight.detach().flatten(1)
    mean = weight.mean(1, keepdim=True)
    scale = torch.rsqrt((weight - mean).square().mean(1, keepdim=True) * weight.shape[1] + GUARD)
    weight = (weight - mean) * scale
    each = each - each.mean(2, keepdim=True) - weight * (each * weight).sum(2, keepdim=True)
    return {layer.weight: (each * scale).reshape(count, *layer.weight.shape)}


class Residual(nn.Module):
    def __init__(self, layers, shortcut):
        super().__init__()
        self.body, self.shortcut = network(layers), network(shortcut)

    def forward(self, x):
        return self.body(x) + self.shortcut(x)


class Mean(nn.Module):
    def forward(self, x):
        return x.mean((2, 3))


def layer(kind, *about):
    if kind == "conv":
        start, end, kernel, stride, padding, bias, standardised = about
        return (Standardised if standardised else nn.Conv2d)(
            start, end, kernel, stride, padding, bias=bias
        )
    return {
        "linear": nn.Linear,
        "norm": nn.GroupNorm,
        "pool": nn.MaxPool2d,
        "relu": nn.ReLU,
        "tanh": nn.Tanh,
        "flatten": nn.Flatten,
        "mean": Mean,
        "residual": Residual,
    }[kind](*about)


def network(layers):
    return nn.Sequential(*(layer(*about) for about in layers))


def ready(form=torch.contiguous_format):
    """Returns the model, its optimizer and an endless iterator over four batches."""
    model = network(LAYERS).to(DEVICE, memory_format=form).train()
    pool = [
        (
            torch.randn(args.batch, *SHAPE, device=DEVICE).contiguous(memory_format=form),
            torch.randint(10, (args.batch,), device=DEVICE),
        )
        for _ in range(4)
    ]

    def batches():
        while True:
            yield from pool

    return model, torch.optim.SGD(model.parameters(), lr=args.lr), batches()


def plain(form=torch.contiguous_format):
    model, optimizer, batches = ready(form)
    return ordinary(model, optimizer, F.cross_entropy, batches)


def ordinary(model, optimizer, criterion, batches):
    def step():
        x, y = next(batches)
        optimizer.zero_grad(set_to_none=True)
        loss = criterion(model(x), y)
        loss.backward()
        optimizer.step()
        # Opacus wraps losses in an object whose .item() would synchronise with the GPU.
        return getattr(loss, "loss_per_sample", loss).detach().mean()

    return step


def opacus_hooks():
    from opacus.grad_sample import GradSampleModule
    from opacus.optimizers import DPOptimizer

    teach_opacus()
    model, sgd, batches = ready()
    optimizer = DPOptimizer(
        sgd, noise_multiplier=NOISE, max_grad_norm=CLIP, expected_batch_size=args.batch
    )
    return ordinary(GradSampleModule(model), optimizer, F.cross_entropy, batches)


def opacus_ghost():
    from opacus.grad_sample import GradSampleModuleFastGradientClipping
    from opacus.optimizers import DPOptimizerFastGradientClipping
    from opacus.utils.fast_gradient_clipping_utils import DPLossFastGradientClipping

    teach_opacus()
    model, sgd, batches = ready()
    model = GradSampleModuleFastGradientClipping(model, max_grad_norm=CLIP, use_ghost_clipping=True)
    optimizer = DPOptimizerFastGradientClipping(
        sgd, noise_multiplier=NOISE, max_grad_norm=CLIP, expected_batch_size=args.batch
    )
    return ordinary(
        model,
        optimizer,
        DPLossFastGradientClipping(model, optimizer, nn.CrossEntropyLoss()),
        batches,
    )


def teach_opacus():
    from opacus.grad_sample import register_grad_sampler

    register_grad_sampler(Standardised)(standardised_gradients)


def torch_func(chunk):
    from torch.func import functional_call, grad_and_value, vmap

    model, _, batches = ready()
    weights = {name: weight.detach() for name, weight in model.named_parameters()}

    def loss_of(weights, x, y):
        return F.cross_entropy(functional_call(model, weights, (x[None],)), y[None])

    def step():
        x, y = next(batches)
        with torch.no_grad():
            total = {name: torch.zeros_like(weight) for name, weight in weights.items()}
            losses = 0
            for x, y in zip(x.split(chunk), y.split(chunk)):
                each, loss = vmap(grad_and_value(loss_of), in_dims=(None, 0, 0))(weights, x, y)
                squares = sum(gradient.flatten(1).square().sum(1) for gradient in each.values())
                factors = (CLIP / (squares.sqrt() + 1e-6)).clamp(max=1)
                for name, gradient in each.items():
                    total[name] += torch.einsum("i,i...->...", factors, gradient)
                losses += loss.sum()
            for name, weight in weights.items():
                noise = NOISE * CLIP * torch.randn_like(weight)
                weight.sub_((total[name] + noise) * (args.lr / args.batch))
        return losses / args.batch

    return step


def main():
    wait = torch.cuda.synchronize if DEVICE.type == "cuda" else (lambda: None)
    ways = [
        ("PyTorch", False, plain),
        ("PyTorch, channels last", False, lambda: plain(torch.channels_last)),
        ("Opacus, hooks", True, opacus_hooks),
        ("Opacus, ghost", True, opacus_ghost),
    ]
    ways += [
        (f"torch.func, {chunk} at a time", True, lambda chunk=chunk: torch_func(chunk))
        for chunk in (256, 1024)
        if chunk <= max(args.batch, 256)
    ]
    count = sum(weight.numel() for weight in network(LAYERS).parameters())
    about = {
        "library": "torch",
        "version": torch.__version__,
        "parameters": count,
        "device": args.device,
        "tf32": torch.backends.cudnn.allow_tf32,
    }
    models.measure(args, ways, about, wait)


main()
