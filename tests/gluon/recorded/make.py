"""Write what MXNet 1.9.1 computes with the programs in ``programs`` to the files beside this one.

Run ``python make.py`` where ``import mxnet`` gives MXNet 1.9.1; ``python make.py losses metrics`` for some files only.
"""

import json
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.dirname(HERE))


def layers(mx):
    """Return what all layers compute."""
    import programs

    return {name: programs.layer(mx, name) for name in programs.layer_names(mx)}


def recurrent(mx):
    """Return what all recurrent networks compute; cells also for sequences of different lengths."""
    import programs

    found = {}
    for name in programs.recurrent_names(mx):
        found[name] = programs.recurrent(mx, name)
        if "Cell" in name:
            found[name + " with lengths"] = programs.recurrent(mx, name, lengths=True)
    return found


def files(mx):
    """Return the numbers in the files that are written."""
    import programs

    return programs.save_files(mx, HERE)


def exported(mx):
    """Return what a network computes that is exported to the files beside this one."""
    import numpy as np
    import programs

    net = programs._picture_net(mx)
    net.initialize()
    data = mx.nd.array(programs.draw(np.random.RandomState(10), 3, 2, 6, 6))
    net(data)
    programs.fill(mx, net)
    net.hybridize()
    output = net(data)
    net.export(os.path.join(HERE, "exported"))
    return {"input": programs.values(data), "output": programs.values(output)}


def main():
    """Write the files whose names are given, or all."""
    import mxnet as mx
    import programs
    import zoo

    assert mx.__version__ == "1.9.1", mx.__version__
    parts = {
        "names": programs.names,
        "layers": layers,
        "recurrent": recurrent,
        "losses": programs.losses,
        "optimizers": programs.optimizers,
        "schedulers": programs.schedulers,
        "metrics": programs.metrics,
        "initializers": programs.initializers,
        "trainings": programs.trainings,
        "files": files,
        "exported": exported,
        "zoo": zoo.record,
    }
    for name in sys.argv[1:] or parts:
        with open(os.path.join(HERE, f"{name}.json"), "w", encoding="utf-8") as file:
            json.dump(parts[name](mx), file, indent=None, separators=(",", ":"))
            file.write("\n")


if __name__ == "__main__":
    main()
