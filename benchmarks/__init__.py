"""Measures of speed, each as a ratio in one run."""
