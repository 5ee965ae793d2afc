"""Run MXNet's own examples here and with real MXNet 1.9.1, and write the table of counts.

``python -m tests.world.examples --source DIRECTORY --python PYTHON [--oracle] [--only NAME ...] [--again] [--write]``.
``DIRECTORY`` has MXNet's repository at the tag 1.9.1. ``PYTHON`` has this library or, with ``--oracle``, mxnet; both need
scipy, pandas, scikit-learn, matplotlib, Pillow and OpenCV. Each example runs in a copy of its folder, with small made
data in the place of downloads (``example_data.py``) and with fewer epochs. Results are kept in ``examples.json``.
"""

import argparse
import fcntl
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

from tests.world import example_data

ROOT = Path(__file__).resolve().parents[2]
RESULTS = Path(__file__).with_name("examples.json")
START = Path(__file__).with_name("example_start.py")
PAGE = ROOT / "docs" / "compatibility.md"
BEGIN, END = "<!-- examples: begin -->", "<!-- examples: end -->"
SECONDS = 400
TOO_LONG = f"more than {SECONDS} seconds"
SCRIPTS, CELLS = "example scripts that run to their end", "cells of tutorials and notebooks that run"


@dataclass
class Example:
    """A script, or a notebook: arguments, made files, and changes of its text that shorten it or suit new packages."""

    script: str
    arguments: str = ""
    #: the name of the made data by the path at which the script reads it
    files: dict = field(default_factory=dict)
    #: replacements in the script: regular expression and text
    changes: dict = field(default_factory=dict)
    #: replacements in other files of its folder
    others: dict = field(default_factory=dict)
    #: the folder in which it is started, if not its own
    cwd: str = ""
    name: str = ""


MNIST = {
    f"{name}-ubyte": f"{name}-ubyte"
    for name in ("train-images-idx3", "train-labels-idx1", "t10k-images-idx3", "t10k-labels-idx1")
}


def mnist_in(folder):
    """Return the files of MNIST in a folder."""
    return {f"{folder}/{name}": name for name in MNIST}


SHERLOCK = {f"data/sherlockholmes.{name}.txt": "text" for name in ("train", "valid", "test")}

EXAMPLES = [
    Example("bayesian-methods/bdk_demo.py", "-d 1 -l 1 -t 200", changes={r"total_iter_num=\d+": "total_iter_num=60"}),
    Example(
        "cnn_text_classification/text_cnn.py",
        "--num-epochs 1 --num-embed 16",
        {"data/rt-polaritydata/rt-polarity.pos": "many lines", "data/rt-polaritydata/rt-polarity.neg": "short text"},
        {"default=''": "default=None"},
    ),
    Example(
        "cnn_chinese_text_classification/text_cnn.py",
        "--num-epochs 1 --num-embed 16",
        {"data/pos.txt": "many lines", "data/neg.txt": "short text"},
        {"default=''": "default=None"},
    ),
    Example("deep-embedded-clustering/dec.py", changes={r"\b(50000|100000|1000000000)\b": "20"}),
    Example("dsd/mlp.py", "--pruning_switch_epoch 1 --weight_sparsity 50 --bias_sparsity 0", mnist_in("data")),
    Example("gluon/dc_gan/dcgan.py", "--dataset mnist --nepoch 1 --batch-size 64 --ngf 8 --ndf 8 --inception_score ''"),
    Example(
        "gluon/dc_gan/dcgan.py",
        "--dataset cifar10 --nepoch 1 --batch-size 64 --ngf 8 --ndf 8 --inception_score ''",
        name="cifar10",
    ),
    Example(
        "gluon/house_prices/kaggle_k_fold_cross_validation.py",
        "",
        {"train.csv": "houses with prices", "test.csv": "houses"},
        {r"as_matrix\(\)": "values.astype('float32')", r"epochs = 150": "epochs = 2"},
    ),
    Example("gluon/image_classification.py", "--dataset mnist --model mobilenet0.25 --epochs 1 --mode hybrid"),
    Example(
        "gluon/image_classification.py",
        "--dataset cifar10 --model mobilenet0.25 --epochs 1 --mode imperative",
        name="cifar10",
    ),
    Example(
        "gluon/image_classification.py",
        "--dataset cifar10 --model mobilenet0.25 --epochs 1 --mode symbolic",
        changes={"mod.save_parameters": "mod.save_params"},
        name="symbolic",
    ),
    Example(
        "gluon/image_classification.py", "--dataset dummy --model squeezenet1.0 --epochs 1 --batch-size 2", name="dummy"
    ),
    Example("gluon/lstm_crf/lstm_crf.py", changes={r"range\(300\)": "range(3)"}),
    Example("gluon/mnist/mnist.py", "--epochs 2"),
    Example("gluon/sn_gan/train.py", "--epochs 1 --batch-size 64"),
    Example("gluon/word_language_model/train.py", "--epochs 1 --emsize 16 --nhid 16 --hybridize --tied --export-model"),
    Example("gluon/super_resolution/super_resolution.py", "--epochs 1 --batch_size 2 --test_batch_size 2"),
    Example("image-classification/train_mnist.py", "--network mlp --num-epochs 1 --num-examples 640"),
    Example(
        "image-classification/train_mnist.py",
        "--network lenet --num-epochs 1 --num-examples 640 --monitor 2",
        name="lenet",
    ),
    Example(
        "image-classification/train_mnist.py",
        "--network lenet --add_stn --num-epochs 1 --num-examples 640 --batch-size 64 --top-k 3 --loss ce,nll",
        name="stn",
    ),
    Example(
        "image-classification/train_mnist.py",
        "--network mlp --num-epochs 2 --num-examples 640 --optimizer adam --lr-step-epochs 1 --model-prefix m --gc-type 2bit --kv-store device",
        name="adam",
    ),
    Example(
        "image-classification/train_cifar10.py", "--network resnet --num-layers 8 --num-epochs 1 --num-examples 640"
    ),
    Example(
        "image-classification/train_imagenet.py",
        "--benchmark 1 --network mobilenet --num-epochs 1 --num-examples 8 --batch-size 2 --image-shape 3,224,224 --num-classes 10",
        others={"common/data.py": {r"self.max_iter = .*": "self.max_iter = 2"}},
        changes={r"500": "2"},
    ),
    Example("image-classification/benchmark_score.py", "--network mobilenet --batch-size 1"),
    Example(
        "model-parallel/matrix_factorization/train.py",
        "--num-epoch 1 --num-gpus 1",
        {"ml-10m.zip": "ml-10m.zip", "ml-10M100K/r1.train": "ratings", "ml-10M100K/r1.test": "ratings"},
    ),
    Example("module/mnist_mlp.py", changes={r"n_epoch = \d+": "n_epoch = 1", r"num_epoch=n_epoch": "num_epoch=1"}),
    Example(
        "module/sequential_module.py",
        changes={r"n_epoch = \d+": "n_epoch = 1"},
    ),
    Example(
        "multivariate_time_series/src/lstnet.py",
        "--num-epochs 1 --q 48 --batch-size 32 --num-filters 8 --recurrent-state-size 8 --seasonal-period 24",
        {"data/electricity.txt": "series", "models/none": "series"},
        {"as_matrix\\(\\)": "values"},
        cwd="src",
    ),
    Example("nce-loss/toy_nce.py", changes={r"100000": "1000", r"num_epoch=20": "num_epoch=1"}),
    Example("nce-loss/toy_softmax.py", changes={r"100000": "1000", r"num_epoch=20": "num_epoch=1"}),
    Example("nce-loss/wordvec.py", "", {"data/text8": "long line"}, {r"num_epoch=20": "num_epoch=1"}),
    Example("nce-loss/wordvec_subwords.py", "", {"data/text8": "long line"}, {r"NUM_EPOCH = \d+": "NUM_EPOCH = 1"}),
    Example(
        "nce-loss/lstm_word.py",
        "",
        {"data/text8": "long line"},
        {r"num_epoch=20": "num_epoch=1", r"batch_size = 1024": "batch_size = 128"},
    ),
    Example("numpy-ops/custom_softmax.py", changes={r"num_epoch=10": "num_epoch=1"}),
    Example("numpy-ops/custom_sparse_sqr.py"),
    Example("numpy-ops/weighted_logistic_regression.py"),
    Example("profiler/profiler_imageiter.py", "", {"test.rec": "large.rec"}, {r"'test.rec', 20": "'test.rec', 1"}),
    Example(
        "profiler/profiler_matmul.py",
        "--iter_num 6 --begin_profiling_iter 2 --end_profiling_iter 4",
        changes={"4096": "128"},
    ),
    Example("profiler/profiler_ndarray.py"),
    Example(
        "restricted-boltzmann-machine/binary_rbm_gluon.py",
        "--num-epoch 1 --num-hidden 20 --batch-size 32",
        others={},
    ),
    Example(
        "restricted-boltzmann-machine/binary_rbm_module.py",
        "--num-epoch 1 --num-hidden 20 --batch-size 32",
    ),
    Example("rnn/bucketing/lstm_bucketing.py", "--num-epochs 1 --num-layers 1 --num-hidden 8 --num-embed 8", SHERLOCK),
    Example(
        "rnn/bucketing/cudnn_rnn_bucketing.py",
        "--num-epochs 1 --num-layers 1 --num-hidden 8 --num-embed 8 --gpus ''",
        SHERLOCK,
    ),
    Example(
        "rnn/old/lstm_bucketing.py",
        "",
        SHERLOCK,
        {
            r"num_epoch = \d+": "num_epoch = 1",
            r"num_hidden = \d+": "num_hidden = 8",
            r"num_embed = \d+": "num_embed = 8",
        },
    ),
    Example(
        "rnn/old/gru_bucketing.py",
        "",
        SHERLOCK,
        {
            r"num_epoch = \d+": "num_epoch = 1",
            r"num_hidden = \d+": "num_hidden = 8",
            r"num_embed = \d+": "num_embed = 8",
        },
    ),
    Example(
        "rnn/old/rnn_cell_demo.py",
        "",
        SHERLOCK,
        {
            r"num_epoch = \d+": "num_epoch = 1",
            r"num_hidden = \d+": "num_hidden = 8",
            r"num_embed = \d+": "num_embed = 8",
        },
    ),
    Example("rnn/word_lm/train.py", "--epochs 1 --emsize 16 --nhid 16 --tied", SHERLOCK),
    Example(
        "sparse/factorization_machine/train.py",
        "--data-train a.libsvm --data-test a.libsvm --input-size 1001 --batch-size 100",
        {"a.libsvm": "libsvm"},
    ),
    Example("sparse/linear_classification/train.py", "--num-epoch 1 --batch-size 200"),
    Example(
        "sparse/linear_classification/train.py",
        "--num-epoch 1 --kvstore local --optimizer adagrad --batch-size 200",
        name="adagrad",
    ),
    Example(
        "sparse/matrix_factorization/train.py",
        "--num-epoch 1",
        {"data/ml-10M100K/r1.train": "ratings", "data/ml-10M100K/r1.test": "ratings"},
    ),
    Example(
        "sparse/matrix_factorization/train.py",
        "--num-epoch 1 --dense",
        {"data/ml-10M100K/r1.train": "ratings", "data/ml-10M100K/r1.test": "ratings"},
        name="dense",
    ),
    Example(
        "sparse/wide_deep/train.py", "--num-epoch 1", {"data/adult.data": "adult.data", "data/adult.test": "adult.test"}
    ),
    Example(
        "ssd/benchmark_score.py",
        "--network vgg16_reduced --batch_size 1 --shape_list 3,300,300 --image-shape 3,300,300",
    ),
    Example(
        "ssd/train.py",
        "--train-path t.rec --val-path t.rec --network resnet50 --batch-size 2 --data-shape 256 --num-class 3 --class-names a,b,c --num-example 8 --end-epoch 1 --gpus '' --pretrained ''",
        {"t.rec": "boxes.rec"},
        others={
            "config/utils.py": {
                r"collections\.Mapping": "collections.abc.Mapping",
                r"import collections\n": "import collections.abc\n",
            }
        },
    ),
    Example("stochastic-depth/sd_mnist.py", changes={r"num_epochs?\s*=\s*\d+": "num_epoch=1"}),
    Example(
        "stochastic-depth/sd_cifar10.py",
        "",
        {"data/cifar/train.rec": "cifar10_train.rec", "data/cifar/test.rec": "cifar10_val.rec"},
        {r"n_epoch = \d+": "n_epoch = 1"},
    ),
    Example(
        "svm_mnist/svm_mnist.py",
        changes={r"fetch_mldata": "fetch_openml", r"num_epoch=\d+": "num_epoch=1"},
    ),
    Example("svrg_module/api_usage_example/example_api_train.py", "-e 2"),
    Example("svrg_module/api_usage_example/example_inference.py", "-e 2"),
    Example("svrg_module/linear_regression/train.py", "-e 2 -f 1 -b 50"),
    Example(
        "bi-lstm-sort/bi-lstm-sort.ipynb", changes={r"epochs = \d+": "epochs = 1", r"50000": "300", r"10000": "100"}
    ),
    Example("multi-task/multi-task-learning.ipynb", changes={r"epochs = \d+": "epochs = 1"}),
    Example("autoencoder/convolutional_autoencoder.ipynb", changes={r"epochs = \d+": "epochs = 1"}),
    Example("autoencoder/variational_autoencoder/VAE_example.ipynb", changes={r"n_epoch=\d+": "n_epoch=1"}),
    Example("adversary/adversary_generation.ipynb", changes={r"epochs = \d+": "epochs = 1"}),
    Example("bayesian-methods/sgld.ipynb", changes={r"1000000": "200", r"100000": "200"}),
    Example("rnn/old/char-rnn.ipynb", changes={r"num_epoch *= *\d+": "num_epoch = 1"}),
    Example(
        "named_entity_recognition/src/preprocess.py",
        "",
        {"data/ner_dataset.csv": "entities"},
        {r"fillna\(method='ffill'\)": "ffill()"},
        cwd="src",
    ),
]

PAGES = """
extend/customop
extend/custom_layer
packages/kvstore/kvstore
packages/gluon/training/normalization/index
packages/gluon/training/learning_rates/learning_rate_schedules
packages/gluon/training/learning_rates/learning_rate_schedules_advanced
packages/gluon/training/learning_rates/learning_rate_finder
packages/gluon/training/trainer
packages/gluon/training/fit_api_tutorial
packages/gluon/image/mnist
packages/gluon/image/image-augmentation
packages/gluon/loss/kl_divergence
packages/gluon/loss/custom-loss
packages/gluon/loss/loss
packages/gluon/data/datasets
packages/gluon/data/data_augmentation
packages/gluon/blocks/nn
packages/gluon/blocks/custom-layer
packages/gluon/blocks/naming
packages/gluon/blocks/activations/activations
packages/gluon/blocks/save_load_params
packages/gluon/blocks/init
packages/gluon/blocks/hybridize
packages/gluon/blocks/parameters
packages/gluon/blocks/custom_layer_beginners
packages/optimizer/index
packages/ndarray/03-ndarray-contexts
packages/ndarray/02-ndarray-operations
packages/ndarray/sparse/csr
packages/ndarray/sparse/train_gluon
packages/ndarray/sparse/row_sparse
packages/ndarray/sparse/train
packages/ndarray/01-ndarray-intro
packages/ndarray/gotchas_numpy_in_mxnet
packages/autograd/index
performance/backend/amp
performance/backend/profiler
getting-started/crash-course/1-ndarray
getting-started/crash-course/5-predict
getting-started/crash-course/2-nn
getting-started/crash-course/4-train
getting-started/crash-course/6-use_gpus
getting-started/crash-course/3-autograd
getting-started/to-mxnet/pytorch
getting-started/logistic_regression_explained
getting-started/gluon_from_experiment_to_deployment
deploy/inference/wine_detector
packages/gluon/image/info_gan
packages/gluon/image/pretrained_models
"""
EXAMPLES += [
    Example(
        f"docs/python_docs/python/tutorials/{page}.md",
        changes={r"\bepochs ?= ?\d+": "epochs = 1", r"num_epochs ?= ?\d+": "num_epochs = 1"},
    )
    for page in PAGES.split()
]


def title(example):
    """Return the name of an example in the results."""
    return example.script + (f" ({example.name})" if example.name else "")


def change(path, changes):
    """Replace regular expressions in a file."""
    text = path.read_text(encoding="utf-8")
    for pattern, replacement in changes.items():
        text = re.sub(pattern, replacement, text)
    path.write_text(text, encoding="utf-8")


def prepare(example, source, place, oracle):
    """Copy the folder of an example, change its text and make its data; return the script."""
    for part in ("example", "docs/python_docs/python/tutorials"):
        shutil.copytree(Path(source) / part, place / part, symlinks=True)
    script = place / (example.script if example.script.startswith("docs/") else f"example/{example.script}")
    top = script.parent.parent if example.cwd else script.parent
    change(script, example.changes)
    for other, changes in example.others.items():
        change(top / other, changes)
    if oracle:
        # here, the option --gpu-as-cpu does this
        for path in top.rglob("*.py"):
            change(path, {r"\bgpu\(": "cpu("})
    for path, kind in example.files.items():
        (top / path).parent.mkdir(parents=True, exist_ok=True)
        (top / path).write_bytes(example_data.make(kind))
    return script


def run(example, source, python, oracle, logs=None):
    """Run an example; return None, the last line of its error, or the cells that failed."""
    with tempfile.TemporaryDirectory() as folder:
        script = prepare(example, source, Path(folder), oracle)
        command = [python, *([] if oracle else ["-m", "phonograd", "run", "--gpu-as-cpu"]), START, script]
        words = [*command, *shlex.split(example.arguments)]
        variables = {"HOME": folder, "MXNET_HOME": folder + "/.mxnet", "MPLBACKEND": "Agg", "PYTHONIOENCODING": "utf-8"}
        name = (title(example) + (".mxnet" if oracle else ".here")).replace("/", "_")
        with open(Path(logs or folder) / name, "w+", encoding="utf-8") as log:
            process = subprocess.Popen(
                words,
                cwd=script.parent,
                env={**os.environ, **variables},
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
            try:
                status = process.wait(SECONDS)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
                return TOO_LONG
            log.seek(0)
            lines = [line for line in log.read().splitlines() if line.strip()]
    if status == 0:
        return json.loads(next((line for line in reversed(lines) if line.startswith('{"cells"')), "null"))
    return lines[-1][:160] if lines else f"exit status {status}"


def stored():
    """Return the results of earlier runs: what failed, by example and library."""
    return json.loads(RESULTS.read_text(encoding="utf-8")) if RESULTS.exists() else {}


def store(name, kind, found):
    """Add a result to those of earlier runs, and of other processes that run at the same time."""
    with open(RESULTS.with_suffix(".lock"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        results = stored()
        results.setdefault(name, {})[kind] = found
        RESULTS.write_text(json.dumps(results, indent=1, sort_keys=True) + "\n", encoding="utf-8")


def counts(results):
    """Return {what: {kind: (passed, total)}} over the examples that ended with both libraries."""
    found = {}
    for result in results.values():
        if set(result) != {"here", "mxnet"} or TOO_LONG in result.values():
            continue
        if any([isinstance(each, dict) for each in result.values()]):
            total = max([each["cells"] for each in result.values() if isinstance(each, dict)])
            for kind, each in result.items():
                passed = total - len(each["failures"]) if isinstance(each, dict) else 0
                found.setdefault(CELLS, {}).setdefault(kind, []).append((passed, total))
        else:
            for kind, each in result.items():
                found.setdefault(SCRIPTS, {}).setdefault(kind, []).append((int(each is None), 1))
    return {
        what: {kind: tuple(map(sum, zip(*pairs, strict=True))) for kind, pairs in kinds.items()}
        for what, kinds in found.items()
    }


def table(results):
    """Return the lines of the table in docs/compatibility.md."""
    lines = ["| MXNet's own | here | MXNet 1.9.1 |", "|---|---|---|"]
    for what, kinds in sorted(counts(results).items(), reverse=True):
        lines.append(
            f"| {what} | " + " | ".join(["{:,} of {:,}".format(*kinds[kind]) for kind in ("here", "mxnet")]) + " |"
        )
    return lines


def write():
    """Write the table into docs/compatibility.md."""
    before, rest = PAGE.read_text(encoding="utf-8").split(BEGIN)
    after = rest.split(END)[1]
    PAGE.write_text(before + "\n".join([BEGIN, *table(stored()), END]) + after, encoding="utf-8")


def main():
    """Run the examples and write the results."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--source", help="a directory with MXNet's repository at the tag 1.9.1")
    parser.add_argument("--python", default=sys.executable, help="a Python with this library, or with mxnet")
    parser.add_argument("--oracle", action="store_true", help="run with real MXNet 1.9.1 instead")
    parser.add_argument("--again", action="store_true", help="run again what has results already")
    parser.add_argument("--logs", help="a directory for the outputs")
    parser.add_argument("--only", nargs="*", default=[""], help="parts of names")
    parser.add_argument("--write", action="store_true", help="write docs/compatibility.md")
    arguments = parser.parse_args()
    kind = "mxnet" if arguments.oracle else "here"
    for example in EXAMPLES if arguments.source else ():
        name = title(example)
        known = kind in stored().get(name, {}) and not arguments.again
        if known or not any([part in name for part in arguments.only]):
            continue
        found = run(example, arguments.source, arguments.python, arguments.oracle, arguments.logs)
        store(name, kind, found)
        print(f"{name}: {found or 'runs'}", flush=True)
    if arguments.write:
        write()


if __name__ == "__main__":
    main()
