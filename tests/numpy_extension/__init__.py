"""Tests of mx.npx, of np.random and np.linalg, and of Gluon with arrays of mx.np."""
