"""The handwritten digits of scikit-learn as log files in date folders."""
