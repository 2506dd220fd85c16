"""Epsilon of an exported ledger by another library, for neighbours that differ by one added or
removed example:

    pip install dp-accounting
    python recheck.py ledger.json [delta]
"""

import json
import sys

from dp_accounting import (
    ComposedDpEvent,
    GaussianDpEvent,
    PoissonSampledDpEvent,
    SelfComposedDpEvent,
    pld,
)


def event(e):
    kind = e["kind"]
    if kind == "poisson_gaussian":
        step = PoissonSampledDpEvent(e["sampling_rate"], GaussianDpEvent(e["noise_multiplier"]))
        return SelfComposedDpEvent(step, e["steps"])
    if kind == "gaussian":
        return SelfComposedDpEvent(GaussianDpEvent(e["noise_multiplier"]), e["count"])
    if kind == "repeated":
        return SelfComposedDpEvent(event(e["event"]), e["count"])
    if kind == "composed":
        return ComposedDpEvent([event(part) for part in e["events"]])
    sys.exit(f"{kind}: this script does not support this kind of event, nothing was re-checked")


delta = float(sys.argv[2]) if len(sys.argv) > 2 else 1e-5
with open(sys.argv[1]) as file:
    data_sets = json.load(file)["data_sets"]
for data in data_sets:
    accountant = pld.PLDAccountant().compose(event({**data, "kind": "composed"}))
    print(data.get("name", ""), accountant.get_epsilon(delta))
