"""Resources on demand: scaling policy, inventory, the Ray provider, Spark on what Ray gives."""
