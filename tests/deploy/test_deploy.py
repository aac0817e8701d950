"""``deploy/``: files that fit their schemas, each other, this command line and the metrics of a real gateway."""

import json
import re
import shlex
import shutil
import socket
import sys
import tomllib
from importlib.resources import files
from pathlib import Path

import httpx
import jsonschema
import kubernetes_validate
import promql_parser
import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from prometheus_client.parser import text_string_to_metric_families
from scripts.image_pip import build_steps

from pets.mock import DistributionAnswers, MockModel
from pets.mock import running as mock_running

from ..test_docs import check, shell_commands
from ..waiting import wait_until

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
KUBERNETES = "1.32"
PORT = 8080
VARIABLE = re.compile(r"\$\{(\w+)(?::([-?])([^}]*))?\}")
YAML_FILES = sorted([*DEPLOY.rglob("*.yaml"), *DEPLOY.rglob("*.yml")])
KUSTOMIZATIONS = [path for path in YAML_FILES if path.name == "kustomization.yaml"]


def documents(path):
    return [document for document in yaml.safe_load_all(path.read_text("utf-8")) if document]


def filled(text):
    """Compose's variables, each with its default."""
    return VARIABLE.sub(lambda match: (match[3] or "") if match[2] == "-" else match[1].lower(), text)


COMPOSE_TEXT = (DEPLOY / "compose.yaml").read_text("utf-8")
COMPOSE = yaml.safe_load(filled(COMPOSE_TEXT))
CONTAINERFILE = (DEPLOY / "Containerfile").read_text("utf-8")
RESOURCES = [
    document for path in YAML_FILES if path not in KUSTOMIZATIONS for document in documents(path) if "kind" in document
]
PODS = {
    resource["metadata"]["name"]: resource["spec"]["template"]["spec"]
    for resource in RESOURCES
    if resource["kind"] in ("Deployment", "StatefulSet")
}


def resources(kind):
    return {resource["metadata"]["name"]: resource for resource in RESOURCES if resource["kind"] == kind}


def pets_commands():
    """The words after ``pets`` of every container of the image: by where it is written."""
    by_place = {
        f"compose {name}": service["command"]
        for name, service in COMPOSE["services"].items()
        if service.get("image") == "pets" and "entrypoint" not in service
    }
    by_place |= {
        f"kubernetes {name}": container["args"]
        for name, pod in PODS.items()
        for container in pod["containers"]
        if container["image"] == "pets"
    }
    by_place["Containerfile"] = json.loads(re.findall(r"^CMD (.*)$", CONTAINERFILE, re.M)[-1])
    (shell,) = COMPOSE["services"]["metrics-key"]["command"]
    (by_place["compose metrics-key"],) = shell_commands(shell)
    return by_place


def test_what_the_image_installs_is_locked():
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["optional-dependencies"]
    locked = {
        canonicalize_name(name): version
        for line in (ROOT / "requirements-dev.lock").read_text("utf-8").splitlines()
        for name, separator, version in [line.partition("==")]
        if separator
    }

    def requirements(names):
        for name in names:
            for requirement in map(Requirement, extras[name]):
                if requirement.name == "pets-llm":
                    yield from requirements(requirement.extras)
                else:
                    yield requirement

    (step,) = (rest for word, rest in build_steps(CONTAINERFILE) if "--dry-run" in rest)
    assert "--constraint requirements-dev.lock" in step
    installed = re.search(r"\[([\w,]+)\]\"$", step)[1].split(",")
    assert {"serve", "postgres", "otel"} <= set(installed)
    for requirement in requirements(installed):
        version = locked.get(canonicalize_name(requirement.name))
        assert version, f"{requirement.name} is not in requirements-dev.lock"
        assert requirement.specifier.contains(version, prereleases=True), requirement
    assert {name for name in installed if name != "serve"} <= set(Requirement(extras["dev"][0]).extras), "for make lock"


def test_compose_fits_its_schema():
    schema = files("check_jsonschema").joinpath("builtin_schemas/vendor/compose-spec.json").read_text("utf-8")
    jsonschema.validate(COMPOSE, json.loads(schema))


@pytest.mark.parametrize(
    "resource", RESOURCES, ids=lambda resource: f"{resource['kind']}-{resource['metadata']['name']}"
)
def test_a_manifest_fits_its_schema(resource):
    kubernetes_validate.validate(resource, KUBERNETES, strict=True)


@pytest.mark.parametrize("path", KUSTOMIZATIONS, ids=lambda path: path.parent.name)
def test_a_kustomization_names_every_manifest_beside_it(path):
    (kustomization,) = documents(path)
    named = {name for name in kustomization["resources"] if name.endswith(".yaml")}
    there = {file.name for file in path.parent.glob("*.yaml")} - {path.name}
    assert named == there
    folders = [path.parent / name for name in kustomization["resources"] if not name.endswith(".yaml")]
    generated = [path.parent / file for entry in kustomization.get("configMapGenerator", ()) for file in entry["files"]]
    assert all((folder / "kustomization.yaml").is_file() for folder in folders)
    assert all(file.is_file() for file in generated)


@pytest.mark.parametrize("place", sorted(pets_commands()))
def test_a_command_is_understood(place):
    check(pets_commands()[place], whole=True)


def test_a_command_that_is_wrong_would_be_found():
    assert len(pets_commands()) == 6
    with pytest.raises(Exception, match="No such option"):
        check([*pets_commands()["compose gateway"], "--replicas=2"], whole=True)


def test_every_variable_of_compose_is_in_the_example():
    named = {match[0] for match in VARIABLE.findall(COMPOSE_TEXT)}
    example = dict(re.findall(r"^(\w+)=(.*)$", (DEPLOY / "env.example").read_text("utf-8"), re.M))
    assert named == example.keys()
    defaults = {name: value for name, kind, value in VARIABLE.findall(COMPOSE_TEXT) if kind == "-"}
    assert {name: value for name, value in example.items() if name in defaults} == defaults
    assert not any(value for name, value in example.items() if name not in defaults), "a secret has no default"


def test_what_compose_mounts_is_there():
    mounts = [mount for service in COMPOSE["services"].values() for mount in service.get("volumes", ())]
    sources = {mount.partition(":")[0] for mount in mounts}
    paths = {source for source in sources if source.startswith(".")}
    assert paths and all((DEPLOY / path).is_file() for path in paths)
    assert sources - paths == COMPOSE["volumes"].keys()


def test_names_lead_somewhere():
    """Hosts that a configuration names are services of compose and of Kubernetes."""
    compose = set(COMPOSE["services"])
    for service in COMPOSE["services"].values():
        compose |= set(service.get("networks", {}).get("default", {}).get("aliases", ()))
    prometheus = yaml.safe_load((DEPLOY / "monitoring" / "prometheus.yml").read_text("utf-8"))
    lookups = [lookup for job in prometheus["scrape_configs"] for lookup in job["dns_sd_configs"]]
    hosts = {name for lookup in lookups for name in lookup["names"]} | {"upstream", "postgres", "prometheus"}
    assert hosts <= compose
    assert hosts <= set(resources("Service"))
    assert " gateway-replicas:" in (DEPLOY / "haproxy.cfg").read_text("utf-8")


def test_ports_agree():
    """The gateway's is one everywhere; every other is where its container listens."""
    gateway = PODS["gateway"]["containers"][0]
    assert {f"--port={PORT}"} <= set(gateway["args"]) & set(COMPOSE["services"]["gateway"]["command"])
    assert re.findall(r"^EXPOSE (\d+)$", CONTAINERFILE, re.M) == [str(PORT)] == COMPOSE["services"]["gateway"]["expose"]
    assert re.findall(r"127\.0\.0\.1:(\d+)(/\w+)", CONTAINERFILE) == [(str(PORT), "/healthz")]
    assert f" gateway-replicas:{PORT} " in (DEPLOY / "haproxy.cfg").read_text("utf-8")
    listening = {
        (name, port["name"]): port["containerPort"]
        for name, pod in PODS.items()
        for container in pod["containers"]
        for port in container["ports"]
    }
    for name, service in resources("Service").items():
        app = service["spec"]["selector"]["app.kubernetes.io/name"]
        for port in service["spec"]["ports"]:
            assert listening[app, port["targetPort"]] == port["port"], name
    assert listening["gateway", "http"] == PORT
    jobs = yaml.safe_load((DEPLOY / "monitoring" / "prometheus.yml").read_text("utf-8"))["scrape_configs"]
    assert [job["dns_sd_configs"][0]["port"] for job in jobs] == [PORT, listening["vllm", "http"]]


def test_a_gateway_that_stops_is_given_the_time_that_it_takes():
    pod = PODS["gateway"]
    (container,) = pod["containers"]
    (grace,) = (int(word.partition("=")[2]) for word in container["args"] if word.startswith("--grace="))
    pause = int(container["lifecycle"]["preStop"]["exec"]["command"][1])
    closing = 10  # seconds that the ledger waits for its server
    assert pod["terminationGracePeriodSeconds"] > pause + grace + closing
    assert int(COMPOSE["services"]["gateway"]["stop_grace_period"].rstrip("s")) > grace + closing


def test_secrets_are_named_and_nowhere_written():
    references = {
        (reference["name"], reference["key"])
        for pod in PODS.values()
        for container in pod["containers"]
        for variable in container.get("env", ())
        if (reference := variable.get("valueFrom", {}).get("secretKeyRef"))
    }
    names = {name for name, _ in references} | {"pets-metrics-key"}
    guide = (ROOT / "docs" / "deployment.md").read_text("utf-8")
    assert names == set(re.findall(r"create secret generic (\S+)", guide))
    for name, key in references:
        assert re.search(rf"create secret generic {name}\b.*--from-literal={key}=", guide), (name, key)
    assert not resources("Secret")


def test_containers_run_without_privileges():
    assert re.findall(r"^USER (\d+)$", CONTAINERFILE, re.M) == ["10001"]
    for name in ("gateway", "mock"):
        assert PODS[name]["securityContext"]["runAsNonRoot"] and PODS[name]["securityContext"]["runAsUser"] == 10001
        (container,) = PODS[name]["containers"]
        assert container["securityContext"]["readOnlyRootFilesystem"]
        assert not container["securityContext"]["allowPrivilegeEscalation"]


# -- against a real gateway ---------------------------------------------------------------------------------------


def board():
    return json.loads((DEPLOY / "monitoring" / "grafana" / "board.json").read_text("utf-8"))


def expressions():
    """Every PromQL expression, by the panel or the alert that it is of."""
    by_place = {
        f"{panel['title']} {target['refId']}": target["expr"].replace("$__rate_interval", "5m")
        for panel in board()["panels"]
        for target in panel["targets"]
    }
    (alerts,) = documents(DEPLOY / "monitoring" / "alerts.yml")
    rules = [rule for group in alerts["groups"] for rule in group["rules"]]
    assert all({"summary", "action"} == rule["annotations"].keys() for rule in rules)
    return by_place | {rule["alert"]: rule["expr"] for rule in rules}


def series(expression):
    """The metrics of an expression, each with the labels that it is asked for."""
    nodes = []
    promql_parser.walk(promql_parser.parse(expression), nodes.append)
    grouping = {
        label
        for node in nodes
        if isinstance(node, promql_parser.AggregateExpr) and node.modifier
        for label in node.modifier.labels
    }
    return {
        node.name: grouping | {matcher.name for matcher in node.matchers.matchers}
        for node in nodes
        if isinstance(node, promql_parser.VectorSelector)
    }


def with_options(words, **values):
    """A command line with other values of some options."""
    return [*(word for word in words if word.partition("=")[0][2:] not in values)] + [
        f"--{name}={value}" for name, value in values.items()
    ]


def test_both_deployments_start_the_same_gateway():
    assert pets_commands()["compose gateway"] == pets_commands()["kubernetes gateway"]


@pytest.fixture
def deployed(popen, port, postgres_url):
    """The gateway as it is deployed, but for its addresses, in front of a mock that it has asked."""
    with mock_running(MockModel(DistributionAnswers({"torn": {"A": 0.55, "B": 0.45}}))) as upstream:
        words = with_options(
            pets_commands()["compose gateway"], host="127.0.0.1", port=port, endpoint=upstream, store=postgres_url
        )
        popen([sys.executable, "-m", "pets", *words])
        with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=20, trust_env=False) as client:
            wait_until(lambda: _answers(client))
            yield client


def _answers(client):
    try:
        return client.get("/healthz").is_success
    except httpx.TransportError:
        return False


def test_a_deployed_gateway_is_ready_votes_and_exposes_what_board_and_alerts_ask_for(deployed):
    (container,) = PODS["gateway"]["containers"]
    for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
        assert deployed.get(container[probe]["httpGet"]["path"]).is_success
    body = {"model": "pets/mock", "messages": [{"role": "user", "content": "torn"}], "pets": {"answer": "choice"}}
    assert deployed.post("/v1/chat/completions", json=body).json()["pets"]["answer"] in ("A", "B")
    families = text_string_to_metric_families(deployed.get("/metrics").text)
    exposed = {"up": {"job", "instance"}}
    for family in families:
        for sample in family.samples:
            exposed.setdefault(sample.name, set()).update(sample.labels)
    wrong = {
        place: name
        for place, expression in expressions().items()
        for name, labels in series(expression).items()
        if name not in exposed or not labels - {"job", "instance"} <= exposed[name]
    }
    assert not wrong, shlex.join(sorted(exposed))


def test_the_balancer_keeps_metrics_to_itself_however_their_path_is_written(deployed, popen, tmp_path):
    if shutil.which("haproxy") is None:
        pytest.skip("there is no HAProxy on this machine")
    with socket.create_server(("127.0.0.1", 0)) as listener:  # handed to HAProxy, so that nobody else has the port
        address = listener.getsockname()
        text = (DEPLOY / "haproxy.cfg").read_text("utf-8")
        text = text.replace("bind :8080", f"bind fd@{listener.fileno()}")
        text = re.sub(r"server-template .*", f"server gateway {deployed.base_url.netloc.decode()}", text)
        (tmp_path / "haproxy.cfg").write_text(text, "utf-8")
        popen(["haproxy", "-f", tmp_path / "haproxy.cfg"], pass_fds=[listener.fileno()])
        with httpx.Client(base_url=f"http://127.0.0.1:{address[1]}", timeout=20, trust_env=False) as client:
            wait_until(lambda: client.get("/readyz").is_success)
            statuses = {path: client.get(path).status_code for path in ("/metrics", "/%6detrics?x=1", "/%6Detric%73")}
    assert set(statuses.values()) == {404}, statuses


def test_the_board_is_whole():
    panels = board()["panels"]
    (datasource,) = documents(DEPLOY / "monitoring" / "grafana" / "datasource.yml")
    uid = datasource["datasources"][0]["uid"]
    assert {panel["datasource"]["uid"] for panel in panels} == {uid}
    assert len({panel["id"] for panel in panels}) == len(panels) == len({panel["title"] for panel in panels})
    cells = [
        (x, y)
        for panel in panels
        for x in range(panel["gridPos"]["x"], panel["gridPos"]["x"] + panel["gridPos"]["w"])
        for y in range(panel["gridPos"]["y"], panel["gridPos"]["y"] + panel["gridPos"]["h"])
    ]
    assert len(set(cells)) == len(cells) and max(x for x, _ in cells) < 24, "panels overlap or stand out"
    assert all(target["expr"] for panel in panels for target in panel["targets"])
