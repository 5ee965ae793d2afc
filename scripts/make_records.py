"""Write the record files in tests/data/records, with real MXNet 1.9.1.

Usage: ``path/to/mxnet/bin/python scripts/make_records.py``. ``plain.rec`` has records with every alignment of the magic
number, ``images.rec`` and its index have images; ``images.npz`` has what MXNet makes of them.
"""

import random
import struct
import zlib
from pathlib import Path

import mxnet as mx
import numpy as np

FOLDER = Path(__file__).resolve().parent.parent / "tests" / "data" / "records"
MAGIC = bytes.fromhex("0a23d7ce")
RECORDS = [b"", b"abc", MAGIC, b"wxyz" + MAGIC + b"abcd", b"x" + MAGIC, MAGIC * 2, bytes(range(256))]


def png(pixels: np.ndarray) -> bytes:
    """Return the contents of a PNG file, written without a library."""
    height, width, _ = pixels.shape

    def chunk(kind: bytes, body: bytes) -> bytes:
        return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))

    rows = b"".join(b"\0" + row.tobytes() for row in pixels)
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    parts = chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + parts


def augmented(image: np.ndarray) -> dict[str, np.ndarray]:
    """Return what augmenters make of an image, with Python's and NumPy's generators seeded."""
    array, results = mx.nd.array(image, dtype="uint8"), {}
    for interp in range(5):
        for width, height in ((8, 6), (17, 13), (15, 5), (5, 15)):
            results[f"resize_{interp}_{width}_{height}"] = mx.image.imresize(array, width, height, interp).asnumpy()
    random.seed(5)
    np.random.seed(5)
    options = {"brightness": 0.1, "contrast": 0.1, "saturation": 0.1, "hue": 0.1, "pca_noise": 0.1, "rand_gray": 0.3}
    augmenters = mx.image.CreateAugmenter(
        (3, 6, 6), 9, True, True, True, mean=True, std=True, inter_method=2, **options
    )
    for number in range(3):
        changed = array
        for augmenter in augmenters:
            changed = augmenter(changed)
        results[f"augmented_{number}"] = changed.asnumpy()
    tensor = mx.nd.array(image.transpose(2, 0, 1))
    for name, zoom in (("plain", {}), ("in", {"zoom_in": True}), ("out", {"zoom_out": True})):
        results[f"rotated_{name}"] = mx.image.imrotate(tensor, 30, **zoom).asnumpy()
    return results


def main() -> None:
    """Write the files."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    writer = mx.recordio.MXRecordIO(str(FOLDER / "plain.rec"), "w")
    for record in RECORDS:
        writer.write(record)
    writer.write(mx.recordio.pack(mx.recordio.IRHeader(0, [1, 2.5], 3, 4), b"body"))
    writer.close()
    images = np.random.RandomState(0).randint(0, 256, (5, 10, 12, 3)).astype(np.uint8)
    indexed = mx.recordio.MXIndexedRecordIO(str(FOLDER / "images.idx"), str(FOLDER / "images.rec"), "w")
    for number, image in enumerate(images):
        header = mx.recordio.IRHeader(0, float(number), number, 7)
        indexed.write_idx(number, mx.recordio.pack(header, png(image)))
    indexed.close()
    batches = mx.io.ImageRecordIter(
        path_imgrec=str(FOLDER / "images.rec"), data_shape=(3, 6, 8), batch_size=2, mean_r=1, mean_g=2, mean_b=3,
        std_r=2, std_g=4, std_b=5, scale=0.5,
    )  # fmt: skip
    np.savez_compressed(
        FOLDER / "images.npz", images=images, batch=next(batches).data[0].asnumpy(), **augmented(images[0])
    )


if __name__ == "__main__":
    main()
