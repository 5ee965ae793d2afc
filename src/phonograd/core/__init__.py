"""The machine under the public packages, one folder per layer in the order of the data; see README.md here."""
