"""Airflow's side of the optimizer, in the shape of a provider: hooks, operators, triggers, sensors, links.

All of them ask a coordinator through `gsdm_grid.client`; nothing here knows how plans are searched or run. As in
Airflow's own providers, names are imported from the files: importing Airflow takes seconds, and `local`, which starts
an Airflow on this machine, must be there before that.
"""
