"""Guarantees by cells (Zhao et al., HiveD, OSDI 2020): virtual clusters and the binding rule."""
