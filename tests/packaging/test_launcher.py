"""The launcher on an imitated machine: a PATH of chosen tools, and a Python that only notes its calls."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
TOOLS = ["bash", "cat", "chmod", "cksum", "cp", "env", "flock", "grep", "mkdir", "readlink"]
TOOLS += ["rm", "sed", "sort"]

PYTHON = """#!/usr/bin/env bash
echo "$*" >>"$CALLS"
case "$*" in
    -c*) exit "${WRONG_VERSION:-0}" ;;
    "-m venv --clear "*)
        [[ -n ${BROKEN_VENV:-} ]] && exit 1
        mkdir -p "$4/bin" && cp "$0" "$4/bin/python" && echo "VIRTUAL_ENV=$4" >"$4/bin/activate" ;;
    "-m pip install --quiet uv") exit 1 ;;
    "-m pip install --requirement "*) exit "${PIP_FAILS:-0}" ;;
    "-m gsdm_grid.cli "* | "-m pytest"*)
        echo "ran in $PWD with JAVA_HOME=${JAVA_HOME:-} and $PYSPARK_PYTHON: $*" ;;
esac
"""


def executable(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)


class Machine:
    def __init__(self, base):
        self.base = base
        self.repo = base / "a repository"
        self.tools = base / "tools"
        self.calls = base / "calls"
        self.repo.mkdir()
        self.tools.mkdir()
        for name in ("gsdm", "requirements.txt", "pyproject.toml"):
            shutil.copy(ROOT / name, self.repo)
        for tool in TOOLS:
            (self.tools / tool).symlink_to(shutil.which(tool))
        executable(self.tools / "python3.11", PYTHON)
        executable(self.tools / "id", "#!/usr/bin/env bash\necho 1000\n")

    def java(self, place, version):
        executable(self.base / place / "bin/java", "")
        (self.base / place / "release").write_text(f'IMPLEMENTOR="Nobody"\nJAVA_VERSION="{version}"\n')
        return self.base / place

    def run(self, *arguments, start=None, cwd=None, **env):
        """The finished process, and what Python was called for meanwhile."""
        self.calls.write_text("")
        jvms = {"GSDM_JVM_DIR": str(self.base / "jvm"), "CALLS": str(self.calls), "PATH": str(self.tools)}
        done = subprocess.run(
            [start or self.repo / "gsdm", *arguments],
            cwd=cwd or self.base,
            env=jvms | env,
            capture_output=True,
            text=True,
            timeout=60,
            stdin=subprocess.DEVNULL,
        )
        return done, self.calls.read_text().splitlines()


@pytest.fixture
def machine(tmp_path):
    return Machine(tmp_path.resolve())


@pytest.fixture
def installed(machine):
    assert machine.run("--help")[0].returncode == 0
    return machine


def sentences(done):
    return [line for line in done.stderr.splitlines() if line.startswith("gsdm: ")]


def test_the_launcher_is_executable_and_its_syntax_is_right():
    for script in (ROOT / "gsdm", ROOT / ".ci/run"):
        assert os.access(script, os.X_OK)
        subprocess.run(["bash", "-n", script], check=True)


def test_the_launcher_names_no_registry():
    assert "://" not in (ROOT / "gsdm").read_text()
    assert "://" not in (ROOT / "requirements.txt").read_text()


def test_the_first_start_installs_and_the_second_only_starts(machine):
    done, calls = machine.run("doctor", "--all of it")
    assert done.returncode == 0
    assert f"-m venv --clear {machine.repo}/.venv" in calls
    assert calls[-3:] == [
        "-m pip install --requirement requirements.txt",
        "-m pip install --quiet --no-deps --editable .",
        "-m gsdm_grid.cli doctor --all of it",
    ]
    assert machine.run("doctor")[1] == ["-m gsdm_grid.cli doctor"]


def test_uv_installs_where_it_can_be_had_and_gets_the_settings_of_pip(machine):
    settings = "global.index-url='somewhere'\\n:env:.find-links='here there'\\nglobal.find-links='nowhere'\\n"
    python = PYTHON.replace(
        '"-m pip install --quiet uv") exit 1 ;;',
        f"""'-m pip install --quiet uv') cp "$UV" "${{0%/*}}/uv" ;;
    '-m pip config list') printf "{settings}" ;;""",
    )
    executable(machine.tools / "python3.11", python)
    uv = machine.base / "uv"
    executable(uv, '#!/usr/bin/env bash\necho "uv $* $UV_DEFAULT_INDEX $UV_FIND_LINKS" >>"$CALLS"\n')
    done, calls = machine.run("--help", UV=str(uv))
    assert done.returncode == 0
    python = machine.repo / ".venv/bin/python"
    assert f"uv pip install --python {python} --requirement requirements.txt somewhere here,there" in calls
    assert "-m pip install --requirement requirements.txt" not in calls


@pytest.mark.parametrize("name", ["requirements.txt", "pyproject.toml"])
def test_changed_requirements_are_installed_again_in_the_same_environment(installed, name):
    with (installed.repo / name).open("a") as file:
        file.write("# changed\n")
    calls = installed.run("--help")[1]
    assert "-m pip install --requirement requirements.txt" in calls
    assert not any("venv" in call for call in calls)


def test_a_failed_installation_is_done_again(machine):
    done, calls = machine.run("--help", PIP_FAILS="1")
    assert done.returncode != 0
    assert "-m gsdm_grid.cli --help" not in calls
    done, calls = machine.run("--help")
    assert done.returncode == 0
    assert "-m pip install --requirement requirements.txt" in calls


def test_a_moved_repository_gets_a_new_environment(installed):
    moved = installed.base / "elsewhere"
    installed.repo.rename(moved)
    calls = installed.run("--help", start=moved / "gsdm")[1]
    assert f"-m venv --clear {moved}/.venv" in calls


def test_two_first_starts_at_once_install_once(machine):
    machine.calls.write_text("")
    env = {"PATH": str(machine.tools), "CALLS": str(machine.calls), "GSDM_JVM_DIR": ""}
    starts = [subprocess.Popen([machine.repo / "gsdm"], env=env, stdout=subprocess.DEVNULL) for _ in range(3)]
    assert [start.wait(timeout=60) for start in starts] == [0, 0, 0]
    calls = machine.calls.read_text().splitlines()
    assert calls.count("-m pip install --requirement requirements.txt") == 1
    assert calls.count("-m gsdm_grid.cli --help") == 3


def test_it_works_through_a_symbolic_link_and_keeps_the_directory_of_its_caller(installed):
    link = installed.base / "bin" / "gsdm"
    link.parent.mkdir()
    link.symlink_to("../a repository/gsdm")
    done, _ = installed.run("status", "a b", start=link, cwd=installed.tools)
    assert f"ran in {installed.tools} " in done.stdout
    assert f"and {installed.repo}/.venv/bin/python: -m gsdm_grid.cli status a b" in done.stdout


def test_without_arguments_it_shows_the_help(installed):
    assert installed.run()[1] == ["-m gsdm_grid.cli --help"]


def test_tests_run_in_the_repository(installed):
    done, calls = installed.run("test", "-k", "law", JAVA_HOME=str(installed.java("java", "17.0.1")))
    assert calls == ["-m pytest -k law"]
    assert f"ran in {installed.repo} " in done.stdout


@pytest.mark.parametrize("command", ["demo", "test", "bench", "serve"])
def test_commands_that_run_spark_ask_for_java_in_one_sentence(installed, command):
    done, calls = installed.run(command)
    assert done.returncode == 1
    assert calls == []
    assert len(sentences(done)) == 1
    assert "Java 17 or later is needed" in done.stderr


@pytest.mark.parametrize("arguments", [("--help",), ("demo", "--help"), ("doctor",), ("version",)])
def test_other_commands_start_without_java(installed, arguments):
    assert installed.run(*arguments)[0].returncode == 0


def test_java_is_taken_from_its_variable_then_the_path_then_the_usual_place(installed):
    chosen, usual = installed.java("chosen", "21"), installed.java("jvm/java-17", "17.0.9")
    assert f"JAVA_HOME={usual} " in installed.run("demo")[0].stdout
    on_path = installed.java("opt/java", "25.0.1")
    (installed.tools / "java").symlink_to(on_path / "bin/java")
    assert f"JAVA_HOME={on_path} " in installed.run("demo")[0].stdout
    assert f"JAVA_HOME={chosen} " in installed.run("demo", JAVA_HOME=str(chosen))[0].stdout


def test_an_old_java_is_passed_over(installed):
    old, usual = installed.java("old", "1.8.0_392"), installed.java("jvm/java-17", "17.0.9")
    assert f"JAVA_HOME={usual} " in installed.run("demo", JAVA_HOME=str(old))[0].stdout


def test_root_on_debian_gets_java_installed(installed):
    executable(installed.tools / "id", "#!/usr/bin/env bash\necho 0\n")
    home = installed.base / "jvm/java-17"
    release = 'JAVA_VERSION=\\"17.0.9\\"'
    executable(
        installed.tools / "apt-get",
        f"""#!/usr/bin/env bash
echo "apt-get $*" >>"$CALLS"
[[ $1 == update ]] && exit
mkdir -p "{home}/bin" && echo "{release}" >"{home}/release"
echo >"{home}/bin/java" && chmod +x "{home}/bin/java"
""",
    )
    done, calls = installed.run("demo")
    assert calls == [
        "apt-get update",
        "apt-get install -y --no-install-recommends openjdk-17-jre-headless",
        "-m gsdm_grid.cli demo",
    ]
    assert f"JAVA_HOME={home} " in done.stdout


def test_root_on_debian_gets_a_browser_for_the_tests(installed):
    executable(installed.tools / "id", "#!/usr/bin/env bash\necho 0\n")
    executable(installed.tools / "apt-get", '#!/usr/bin/env bash\necho "apt-get $*" >>"$CALLS"\n')
    java = str(installed.java("java", "17.0.1"))
    _, calls = installed.run("test", JAVA_HOME=java)
    assert calls == ["apt-get update", "apt-get install -y --no-install-recommends chromium", "tests/lanes.py"]
    executable(installed.tools / "chromium", "")
    assert installed.run("test", JAVA_HOME=java)[1] == ["tests/lanes.py"]


def test_all_tests_run_in_lanes_and_named_ones_by_pytest_alone(installed):
    java = str(installed.java("java", "17.0.1"))
    assert installed.run("test", JAVA_HOME=java)[1] == ["tests/lanes.py"]
    assert installed.run("test", "--long", JAVA_HOME=java)[1] == ["tests/lanes.py --long"]
    assert installed.run("test", "tests/unit", "-x", JAVA_HOME=java)[1] == ["-m pytest tests/unit -x"]


def test_tests_run_without_a_browser_if_there_is_none_to_be_had(installed):
    executable(installed.tools / "id", "#!/usr/bin/env bash\necho 0\n")
    executable(installed.tools / "apt-get", "#!/usr/bin/env bash\nexit 1\n")
    done, calls = installed.run("test", JAVA_HOME=str(installed.java("java", "17.0.1")))
    assert calls == ["tests/lanes.py"]
    assert "no browser to be had" in sentences(done)[-1]


def test_without_a_fitting_python_it_says_so_in_one_sentence(machine):
    done, _ = machine.run("--help", WRONG_VERSION="1")
    assert done.returncode == 1
    assert len(sentences(done)) == 1
    assert "Python 3.11 or 3.12 is needed" in done.stderr


def test_without_the_venv_module_it_names_the_package(machine):
    done, _ = machine.run("--help", BROKEN_VENV="1")
    assert done.returncode == 1
    assert "python3-venv" in sentences(done)[-1]
