"""What is imported where: starting a working node or a client must stay quick."""

import subprocess
import sys


def test_working_nodes_and_clients_do_without_the_models_of_documents():
    rooms = "gsdm_grid, gsdm_grid.client, gsdm_grid.hosts, gsdm_grid.engine.runner, gsdm_grid.functions.library"
    program = f"import sys, {rooms}; sys.exit('pydantic' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], check=False, timeout=60).returncode == 0
