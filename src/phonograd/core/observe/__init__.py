"""Observation layer: attribution of kernel time, memory accounting and anomaly detection."""
