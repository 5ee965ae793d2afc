"""Programs of users, run on MXNet 1.9.1 and here: modules, stores, sparse training, data, text, estimators, mx.np."""
