#!/usr/bin/env python3
"""Times training steps of JAX on a GPU, private ones by vmap. Prints one JSON line per variant.

python3 jax_steps.py --model simple_vgg --batch 4096
"""

import os

import models

args = models.arguments(__doc__)
os.environ["JAX_PLATFORMS"] = args.device
# Leave memory to the library that is timed next.
os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")

import jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402
from jax import lax  # noqa: E402

CLIP, NOISE = 1.0, 1.0
GUARD = 1e-4  # Of the weight standardisation.
LAYERS, SHAPE = models.MODELS[args.model]


def start(layers, key):
    """Initial parameters of a list of layers, nested like the list."""
    return [
        first(kind, about, jax.random.fold_in(key, i)) for i, (kind, *about) in enumerate(layers)
    ]


def first(kind, about, key):
    if kind == "conv":
        begin, end, kernel, _, _, bias, _ = about
        weight = uniform(key, (end, begin, kernel, kernel), begin * kernel * kernel)
        return [weight, jnp.zeros(end)] if bias else [weight]
    if kind == "linear":
        begin, end = about
        return [uniform(key, (begin, end), begin), jnp.zeros(end)]
    if kind == "norm":
        return [jnp.ones(about[1]), jnp.zeros(about[1])]
    if kind == "residual":
        return [start(layers, jax.random.fold_in(key, i)) for i, layers in enumerate(about)]
    return []


def uniform(key, shape, fan_in):
    bound = fan_in**-0.5
    return jax.random.uniform(key, shape, minval=-bound, maxval=bound)


def run(layers, weights, x):
    for (kind, *about), own in zip(layers, weights):
        x = apply(kind, about, own, x)
    return x


def apply(kind, about, own, x):
    if kind == "conv":
        weight = own[0]
        if about[6]:
            weight -= weight.mean((1, 2, 3), keepdims=True)
            weight *= lax.rsqrt(jnp.square(weight).sum((1, 2, 3), keepdims=True) + GUARD)
        y = lax.conv_general_dilated(x, weight, (about[3],) * 2, [(about[4],) * 2] * 2)
        return y + own[1][:, None, None] if about[5] else y
    if kind == "norm":
        groups = x.reshape(len(x), about[0], -1)
        mean, deviation = groups.mean(2, keepdims=True), groups.var(2, keepdims=True)
        x = ((groups - mean) * lax.rsqrt(deviation + 1e-5)).reshape(x.shape)
        return x * own[0][:, None, None] + own[1][:, None, None]
    if kind == "pool":
        size, step = (1, 1, about[0], about[0]), (1, 1, about[1], about[1])
        return lax.reduce_window(x, -jnp.inf, lax.max, size, step, "VALID")
    if kind == "residual":
        return run(about[0], own[0], x) + run(about[1], own[1], x)
    return {
        "linear": lambda: x @ own[0] + own[1],
        "relu": lambda: jax.nn.relu(x),
        "tanh": lambda: jnp.tanh(x),
        "flatten": lambda: x.reshape(len(x), -1),
        "mean": lambda: x.mean((2, 3)),
    }[kind]()


def loss_of(weights, x, y):
    logits = jax.nn.log_softmax(run(LAYERS, weights, x))
    return -jnp.take_along_axis(logits, y[:, None], 1).mean()


def plain(weights, x, y, key):
    loss, gradient = jax.value_and_grad(loss_of)(weights, x, y)
    return jax.tree.map(lambda w, g: w - args.lr * g, weights, gradient), loss


def private(chunk):
    one = jax.value_and_grad(lambda weights, x, y: loss_of(weights, x[None], y[None]))

    def clipped(weights, x, y):
        losses, each = jax.vmap(one, in_axes=(None, 0, 0))(weights, x, y)
        squares = sum(jnp.square(g).reshape(len(g), -1).sum(1) for g in jax.tree.leaves(each))
        factors = jnp.minimum(1, CLIP / (jnp.sqrt(squares) + 1e-6))
        return jax.tree.map(lambda g: jnp.tensordot(factors, g, 1), each), losses.sum()

    def step(weights, x, y, key):
        def more(total, part):
            return jax.tree.map(jnp.add, total, clipped(weights, *part)), None

        parts = (x.reshape(-1, chunk, *SHAPE), y.reshape(-1, chunk))
        zero = (jax.tree.map(jnp.zeros_like, weights), jnp.float32(0))
        (total, loss), _ = lax.scan(more, zero, parts)
        leaves, form = jax.tree.flatten(total)
        keys = jax.random.split(key, len(leaves))
        leaves = [g + NOISE * CLIP * jax.random.normal(k, g.shape) for g, k in zip(leaves, keys)]
        total = jax.tree.unflatten(form, leaves)
        return (
            jax.tree.map(lambda w, g: w - args.lr / args.batch * g, weights, total),
            loss / args.batch,
        )

    return step


def prepared(step, last):
    def prepare():
        key = jax.random.key(1)
        x = jax.random.normal(key, (args.batch, *SHAPE))
        y = jax.random.randint(key, (args.batch,), 0, 10)
        state, compiled = [start(LAYERS, key), key], jax.jit(step, donate_argnums=0)

        def again():
            state[1], key = jax.random.split(state[1])
            state[0], loss = compiled(state[0], x, y, key)
            last[:] = [state[0], loss]
            return loss

        return again

    return prepare


def main():
    last = []
    ways = [("JAX", False, prepared(plain, last))]
    ways += [
        (f"JAX, vmap, {chunk} at a time", True, prepared(private(chunk), last))
        for chunk in (256, 1024)
        if chunk <= args.batch and args.batch % chunk == 0
    ]
    count = sum(w.size for w in jax.tree.leaves(start(LAYERS, jax.random.key(0))))
    about = {
        "library": "jax",
        "version": jax.__version__,
        "parameters": count,
        "device": args.device,
    }
    models.measure(args, ways, about, lambda: jax.block_until_ready(last))


main()
