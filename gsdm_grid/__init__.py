"""GSDM-grid: continuous queries over high-volume numerical streams, on Ray and Spark."""
