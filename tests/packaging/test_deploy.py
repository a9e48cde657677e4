"""What is said about deployment holds: manifests fit schemas and each other, commands have the options they use."""

import configparser
import copy
import json
import re
import shlex
import shutil
import subprocess
import tomllib
from pathlib import Path

import jsonschema
import kubernetes_validate
import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
KUBERNETES = ROOT / "deploy" / "kubernetes"
UNITS = sorted((ROOT / "deploy" / "systemd").glob("*.service"))
RAY_CLUSTER = json.loads((Path(__file__).parent / "ray_cluster.json").read_text())
VERSIONS = ("1.31", "1.37")
"""The oldest and the newest Kubernetes that the manifests are checked for."""


def manifests():
    return [
        pytest.param(document, id=f"{path.stem}-{document['kind']}-{document['metadata']['name']}")
        for path in sorted(KUBERNETES.glob("*.yaml"))
        for document in yaml.safe_load_all(path.read_text())
    ]


def named(kind):
    return [one.values[0] for one in manifests() if one.values[0]["kind"] == kind]


def pod_templates(document):
    """Templates of pods in a Ray cluster, each as a resource that Kubernetes has a schema for."""
    groups = [document["spec"]["headGroupSpec"], *document["spec"]["workerGroupSpecs"]]
    for group in groups:
        template = copy.deepcopy(group["template"])
        yield {"apiVersion": "v1", "kind": "PodTemplate", "metadata": {"name": "x"}, "template": template}


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("document", manifests())
def test_manifests_fit_their_schemas(document, version):
    if document["kind"] == "RayCluster":
        jsonschema.validate(document, RAY_CLUSTER)
        for template in pod_templates(document):
            kubernetes_validate.validate(template, version, strict=True)
    else:
        kubernetes_validate.validate(document, version, strict=True)


def test_the_schemas_find_misspelt_names():
    (cluster,) = named("RayCluster")
    for break_it in (
        lambda one: one["spec"].update(enableAutoscaling=True),
        lambda one: one["spec"]["workerGroupSpecs"][0].update(maxReplica=3),
        lambda one: one["spec"]["workerGroupSpecs"][0]["rayStartParams"].update(labels="near=x"),
        lambda one: one["spec"]["headGroupSpec"]["rayStartParams"].update({"num-cpus": 0}),
    ):
        broken = copy.deepcopy(cluster)
        break_it(broken)
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate(broken, RAY_CLUSTER)
    template = next(pod_templates(cluster))
    template["template"]["spec"]["containers"][0]["resource"] = {}
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(template, VERSIONS[-1], strict=True)


def test_manifests_name_each_other_and_our_versions():
    (cluster,), (deployment,), (service,) = named("RayCluster"), named("Deployment"), named("Service")
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert f"ray[default]=={cluster['spec']['rayVersion']}" in project["dependencies"]
    pod = deployment["spec"]["template"]
    (container,) = pod["spec"]["containers"]
    images = {
        container["image"],
        *(one["template"]["spec"]["containers"][0]["image"] for one in pod_templates(cluster)),
    }
    assert images == {f"gsdm-grid:{project['version']}"}
    name = cluster["metadata"]["name"]
    environment = {one["name"]: one for one in container["env"]}
    assert environment["RAY_HEAD"]["value"] == f"{name}-head-svc:6379"
    assert environment["RAY_AUTH_TOKEN"]["valueFrom"]["secretKeyRef"]["name"] == name
    assert service["spec"]["selector"].items() <= pod["metadata"]["labels"].items()
    volumes = [one for one in pod["spec"]["volumes"] if "persistentVolumeClaim" in one]
    claims = [one["persistentVolumeClaim"]["claimName"] for one in volumes]
    assert claims == [one["metadata"]["name"] for one in named("PersistentVolumeClaim")]
    assert pod["spec"]["serviceAccountName"] in [one["metadata"]["name"] for one in named("ServiceAccount")]
    assert {document["metadata"]["namespace"] for document in (one.values[0] for one in manifests())} == {"gsdm"}
    inside = {"app.kubernetes.io/part-of": "gsdm"}
    assert all(inside.items() <= one["template"]["metadata"]["labels"].items() for one in pod_templates(cluster))
    assert inside.items() <= pod["metadata"]["labels"].items()


# -- commands -------------------------------------------------------------------------------------------------------


def in_document():
    """Commands in the shell blocks of the document."""
    text = (ROOT / "docs" / "deploy.md").read_text()
    for block in re.findall(r"^```sh\n(.*?)^```", text, flags=re.S | re.M):
        yield from block.replace("\\\n", " ").splitlines()


def in_units():
    for path in UNITS:
        unit = configparser.RawConfigParser(strict=False)
        unit.optionxform = str
        unit.read(path)
        yield unit["Service"]["ExecStart"]


def in_manifests():
    (deployment,) = named("Deployment")
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    yield from container["args"][0].replace("\\\n", " ").splitlines()
    for one in pod_templates(named("RayCluster")[0]):
        assert "command" not in one["template"]["spec"]["containers"][0]  # KubeRay starts Ray
    for group in (named("RayCluster")[0]["spec"]["headGroupSpec"], *named("RayCluster")[0]["spec"]["workerGroupSpecs"]):
        yield "ray start " + " ".join(f"--{name}={value}" for name, value in group["rayStartParams"].items())


def calls():
    """Our commands and Ray's, as words, wherever they are named."""
    found = {}
    for source in (in_document, in_units, in_manifests):
        for line in source():
            words = shlex.split(line, comments=True)
            while words and (words[0] == "exec" or re.match(r"[A-Z_]+=", words[0])):
                words = words[1:]
            if words and re.fullmatch(r"(\S*/bin/|\./)?(gsdm|ray)", words[0]):
                call = (words[0].rpartition("/")[2], *words[1:])
                found[" ".join(call)] = call
    return [pytest.param(call, id=text[:100]) for text, call in found.items()]


def command_of(words):
    """The click command that words name, and what is left of them."""
    import typer.main

    from gsdm_grid.cli.commands import app

    if words[0] == "gsdm":
        command = typer.main.get_command(app)
    else:
        from ray.scripts.scripts import cli as command
    rest = list(words[1:])
    while hasattr(command, "commands"):
        assert rest[0] in command.commands, f"there is no command {rest[0]!r}; there are {', '.join(command.commands)}"
        command = command.commands[rest.pop(0)]
    return command, rest


@pytest.mark.parametrize("words", calls())
def test_commands_have_the_options_that_they_are_given(words):
    command, rest = command_of(words)
    known = {option for parameter in command.params for option in (*parameter.opts, *parameter.secondary_opts)}
    given = [word.partition("=")[0] for word in rest if word.startswith("--")]
    assert [option for option in given if option not in known] == []


def test_there_are_commands_to_check():
    texts = [" ".join(one.values[0]) for one in calls()]
    begins = ("gsdm serve --ray-address", "gsdm serve --home", "gsdm doctor", "ray start --head", "ray start --block")
    for wanted in begins:
        assert any(text.startswith(wanted) for text in texts), wanted


@pytest.mark.parametrize("path", UNITS, ids=lambda path: path.name)
def test_units_are_what_systemd_takes(path, tmp_path):
    if shutil.which("systemd-analyze") is None:
        pytest.skip("there is no systemd here")
    text = re.sub(r"/opt/gsdm/\.venv/bin/\w+", "/bin/true", path.read_text())
    for other in UNITS:  # units that it names must be there
        (tmp_path / other.name).write_text(text if other == path else other.read_text())
    done = subprocess.run(
        ["systemd-analyze", "verify", tmp_path / path.name], capture_output=True, text=True, check=False
    )
    assert path.name not in done.stderr, done.stderr


def test_settings_that_units_read_are_in_their_file():
    told = dict(
        line.split("=", 1)
        for line in (ROOT / "deploy" / "systemd" / "gsdm.env").read_text().splitlines()
        if line and not line.startswith("#")
    )
    for path in UNITS:
        assert set(re.findall(r"\$\{(\w+)\}", path.read_text())) <= told.keys()


def test_the_image_has_what_is_packaged():
    text = (ROOT / "deploy" / "Dockerfile").read_text()
    packages = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["packages"]
    for package in {name.partition(".")[0] for name in packages}:
        assert f"COPY {package} ./{package}" in text
        assert f"!{package}\n" in (ROOT / "deploy" / "Dockerfile.dockerignore").read_text()
