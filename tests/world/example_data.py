"""Make small data sets in the formats that MXNet's examples read: digits, pictures, texts, ratings, tables.

Nothing is downloaded, and nothing here imports mxnet. ``make(name)`` returns the bytes of a file by its usual name.
"""

import bz2
import gzip
import io
import struct
import tarfile
import zipfile

import numpy

TRAIN, TEST = 384, 128
MAGIC = 0xCED7230A


def pictures(count, shape, seed):
    """Return pictures of ten classes, each with a pattern of its own, and their labels."""
    patterns = numpy.random.RandomState(7).randint(0, 200, (10, *shape))
    random = numpy.random.RandomState(seed)
    labels = random.randint(0, 10, count)
    labels[:10] = numpy.arange(10)
    return (patterns[labels] + random.randint(0, 55, (count, *shape))).astype("uint8"), labels.astype("uint8")


def idx(array):
    """Return an array in the format of MNIST's files."""
    return struct.pack(f">HBB{array.ndim}I", 0, 8, array.ndim, *array.shape) + array.tobytes()


def digits():
    """Return the four files of MNIST by name."""
    files = {}
    for name, count, seed in (("train", TRAIN, 0), ("t10k", TEST, 1)):
        images, labels = pictures(count, (28, 28), seed)
        files[f"{name}-images-idx3-ubyte"] = idx(images)
        files[f"{name}-labels-idx1-ubyte"] = idx(labels)
    return files


def digits_archive():
    """Return MNIST as one NumPy file."""
    stream = io.BytesIO()
    (x, y), (x_test, y_test) = [pictures(count, (28 * 28,), seed) for count, seed in ((TRAIN, 0), (TEST, 1))]
    numpy.savez(stream, X=x, Y=y, X_test=x_test, Y_test=y_test)
    return stream.getvalue()


def encode(image, kind="JPEG"):
    """Return the bytes of a picture."""
    from PIL import Image

    stream = io.BytesIO()
    Image.fromarray(image).save(stream, kind, quality=95)
    return stream.getvalue()


def records(count, shape, seed, label=None):
    """Return a record file of pictures; ``label`` makes a list of numbers of a class."""
    parts = []
    for number, (image, of_class) in enumerate(zip(*pictures(count, shape, seed))):
        if label is None:
            header = struct.pack("<IfQQ", 0, float(of_class), number, 0)
        else:
            values = numpy.array(label(int(of_class)), "float32")
            header = struct.pack("<IfQQ", values.size, 0.0, number, 0) + values.tobytes()
        content = header + encode(image)
        parts.append(struct.pack("<II", MAGIC, len(content)) + content + b"\0" * (-len(content) % 4))
    return b"".join(parts)


def boxes(of_class):
    """Return the label of a picture with one object: a header, then class and corners."""
    return [2, 5, of_class % 3, 0.1, 0.1, 0.6 + 0.02 * of_class, 0.7]


def binary_pictures():
    """Return the archive of CIFAR-10 in its binary format."""
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w:gz") as archive:
        for number, name in enumerate([*[f"data_batch_{i}.bin" for i in range(1, 6)], "test_batch.bin"]):
            images, labels = pictures(TEST // 2, (3, 32, 32), number)
            content = b"".join([bytes([label]) + image.tobytes() for image, label in zip(images, labels)])
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))
    return stream.getvalue()


def zipped(files):
    """Return an archive with files by name."""
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return stream.getvalue()


def words(lines, seed, lengths=(4, 30), vocabulary=120):
    """Return lines of made words, of which few are frequent."""
    random = numpy.random.RandomState(seed)
    known = ["".join(random.choice(list("abcdefghijklmnoprstuvw"), random.randint(2, 8))) for _ in range(vocabulary)]
    weights = 1 / numpy.arange(1, vocabulary + 1)
    made = [" ".join(random.choice(known, random.randint(*lengths), p=weights / weights.sum())) for _ in range(lines)]
    return ("\n".join(made) + "\n").encode()


def ratings(separator, count=2000, seed=0):
    """Return lines of user, item, rating and time."""
    random = numpy.random.RandomState(seed)
    rows = zip(random.randint(1, 90, count), random.randint(1, 70, count), random.randint(1, 6, count))
    return "".join(
        [separator.join([str(user), str(item), str(rating), "0"]) + "\n" for user, item, rating in rows]
    ).encode()


def sparse_lines(count, features, seed, regression=False):
    """Return lines in the format of LibSVM."""
    random = numpy.random.RandomState(seed)
    lines = []
    for _ in range(count):
        columns = numpy.sort(random.choice(features, min(12, features), replace=False)) + 1
        label = random.rand() * 50 + 1950 if regression else random.randint(0, 2)
        lines.append(f"{label} " + " ".join([f"{column}:{random.rand():.4f}" for column in columns]))
    return ("\n".join(lines) + "\n").encode()


def adults(count, seed):
    """Return lines of the census data."""
    random = numpy.random.RandomState(seed)
    lines = []
    for _ in range(count):
        cells = [
            random.randint(18, 70),
            random.choice(["Private", "State-gov"]),
            random.randint(1000, 9000),
            random.choice(["Bachelors", "HS-grad", "Masters"]),
            random.randint(5, 15),
            random.choice(["Divorced", "Widowed"]),
            random.choice(["Sales", "Tech-support"]),
            random.choice(["Husband", "Wife"]),
            "White",
            random.choice(["Male", "Female"]),
            random.randint(0, 100),
            0,
            random.randint(10, 60),
            "Peru",
            random.choice(["<=50K", ">50K"]),
        ]
        lines.append(", ".join(map(str, cells)))
    return ("\n".join(lines) + "\n").encode()


def houses(count, seed, prices):
    """Return a table of houses."""
    random = numpy.random.RandomState(seed)
    lines = ["Id,MSSubClass,LotArea,Street,SaleCondition" + (",SalePrice" if prices else "")]
    for number in range(count):
        row = [number, random.randint(20, 90), random.randint(2000, 9000), random.choice(["Pave", "Grvl"]), "Normal"]
        lines.append(",".join(map(str, [*row, *([random.randint(90000, 300000)] if prices else [])])))
    return ("\n".join(lines) + "\n").encode()


def series(steps=400, columns=5):
    """Return a table of series, a step a line."""
    values = numpy.random.RandomState(0).rand(steps, columns) + numpy.sin(numpy.arange(steps) / 4)[:, None]
    return "".join([",".join([f"{value:.4f}" for value in row]) + "\n" for row in values]).encode()


def entities(sentences=200):
    """Return sentences with the kinds of their words, a word a line."""
    random = numpy.random.RandomState(0)
    lines = ["Sentence #,Word,POS,Tag"]
    for number, sentence in enumerate(words(sentences, 3, (4, 12)).decode().splitlines()):
        for place, word in enumerate(sentence.split()):
            first = f"Sentence: {number + 1}" if place == 0 else ""
            lines.append(f"{first},{word},NN,{random.choice(['O', 'B-geo', 'I-geo'])}")
    return ("\n".join(lines) + "\n").encode()


def make(name):
    """Return the bytes of a file by its usual name."""
    found = digits()
    if name.removesuffix(".gz") in found:
        content = found[name.removesuffix(".gz")]
        return gzip.compress(content) if name.endswith(".gz") else content
    if name in MAKERS:
        return MAKERS[name]()
    if name.endswith((".jpg", ".jpeg")):
        return MAKERS["image.jpg"]()
    raise FileNotFoundError(f"no data is made for {name}")


MAKERS = {
    "mnist.zip": lambda: zipped(digits()),
    "mnist.npz": digits_archive,
    "cifar-10-binary.tar.gz": binary_pictures,
    "cifar10.zip": lambda: zipped(
        {"cifar/train.rec": MAKERS["cifar10_train.rec"](), "cifar/test.rec": MAKERS["cifar10_val.rec"]()}
    ),
    "cifar10_train.rec": lambda: records(TRAIN, (32, 32, 3), 0),
    "cifar10_val.rec": lambda: records(TEST, (32, 32, 3), 1),
    "large.rec": lambda: records(48, (260, 280, 3), 2),
    "boxes.rec": lambda: records(10, (120, 140, 3), 2, boxes),
    "text": lambda: words(600, 0),
    "many lines": lambda: words(1300, 0, (3, 9)),
    "short text": lambda: words(120, 1),
    "long line": lambda: words(1, 1, (9000, 9001)),
    "ml-10m.zip": lambda: zipped(
        {f"ml-10M100K/{name}": ratings("::") for name in ("ratings.dat", "r1.train", "r1.test")}
    ),
    "wikitext-2-v1.zip": lambda: zipped(
        {f"wikitext-2/wiki.{name}.tokens": words(300, seed) for seed, name in enumerate(("train", "valid", "test"))}
    ),
    "master.zip": lambda: zipped(
        {
            **{
                f"BSDS500-master/BSDS500/data/images/{part}/{number}.jpg": MAKERS["image.jpg"]()
                for part in ("train", "test")
                for number in range(4)
            },
            "BSDS500-master/BSDS500/data/groundTruth/none": b"",
        }
    ),
    "ratings": lambda: ratings("::"),
    "tabbed ratings": lambda: ratings("\t"),
    "libsvm": lambda: sparse_lines(2000, 1000, 0),
    "avazu-app.bz2": lambda: bz2.compress(sparse_lines(1200, 100000, 0)),
    "avazu-app.t.bz2": lambda: bz2.compress(sparse_lines(1200, 100000, 1)),
    "YearPredictionMSD.bz2": lambda: bz2.compress(sparse_lines(400, 90, 0, regression=True)),
    "adult.data": lambda: adults(400, 0),
    "adult.test": lambda: adults(200, 1),
    "houses with prices": lambda: houses(200, 0, True),
    "houses": lambda: houses(100, 1, False),
    "series": series,
    "entities": entities,
    "image.jpg": lambda: encode(pictures(10, (280, 300, 3), 0)[0][0]),
}
