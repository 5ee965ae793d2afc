"""Detection, region pooling, resizing and image operators."""
