"""Write src/phonograd/data/digits.npz from the copy of the UCI digits that scikit-learn carries.

Usage: python scripts/make_digits.py   (needs scikit-learn, in an environment of its own)

The 1797 images are put in a fixed random order in which every class is spread evenly, so that "the first 1437 train,
the last 360 test" is a stratified split. Running the script again writes the same arrays.
"""

import io
import zipfile
from pathlib import Path

import numpy as np
from sklearn.datasets import load_digits

TRAINING_IMAGES = 1437
SEED = 20
TARGET = Path(__file__).resolve().parent.parent / "src" / "phonograd" / "data" / "digits.npz"


def stratified_order(labels: np.ndarray, seed: int) -> np.ndarray:
    """Return a random order of the examples in which any long stretch holds every class in its proportion."""
    generator = np.random.Generator(np.random.PCG64(seed))
    position = np.empty(len(labels))
    for label in np.unique(labels):
        members = generator.permutation(np.flatnonzero(labels == label))
        position[members] = (np.arange(len(members)) + generator.random(len(members))) / len(members)
    return np.argsort(position, kind="stable")


def write_archive(path: Path, **arrays: np.ndarray) -> None:
    """Write a compressed .npz whose bytes do not depend on the clock."""
    with zipfile.ZipFile(path, "w") as archive:
        for name, array in arrays.items():
            content = io.BytesIO()
            np.lib.format.write_array(content, array, allow_pickle=False)
            entry = zipfile.ZipInfo(f"{name}.npy", date_time=(1998, 7, 1, 0, 0, 0))
            archive.writestr(entry, content.getvalue(), zipfile.ZIP_DEFLATED, 9)


def main() -> None:
    """Write the file and print what is in it."""
    digits = load_digits()
    order = stratified_order(digits.target, SEED)
    images = digits.images[order].astype(np.uint8)
    labels = digits.target[order].astype(np.uint8)
    write_archive(TARGET, images=images, labels=labels)
    print(f"{TARGET}: {len(labels)} images, {TARGET.stat().st_size} bytes")
    print("training images per class:", np.bincount(labels[:TRAINING_IMAGES]).tolist())
    print("test images per class:    ", np.bincount(labels[TRAINING_IMAGES:]).tolist())


if __name__ == "__main__":
    main()
